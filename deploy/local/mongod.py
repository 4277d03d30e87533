"""MongoDB of the local stack: one mongod as a replica set of one."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure, PyMongoError

from deploy.local.errors import NotReadyError
from deploy.local.packages import Packages
from deploy.local.ports import HOST
from deploy.local.process import Launcher
from deploy.local.programs import mongod_program
from deploy.local.server import Server

CONFIG = Path(__file__).resolve().parents[1] / "mongo" / "mongod.conf"
REPLICA_SET = "punktlig"
_CACHE_GIGABYTES = "0.5"
_NOT_YET_INITIALIZED = 94
_NOT_A_MEMBER = 93


class Mongod(Server):
    """A mongod on the loopback address; `url` is what clients connect to."""

    name = "mongod"

    def __init__(self, folder: Path, launcher: Launcher, packages: Packages) -> None:
        super().__init__(folder, launcher)
        self._packages = packages

    @property
    def url(self) -> str:
        """The connection string; naming the replica set makes drivers wait for a primary after a restart."""
        return f"mongodb://{HOST}:{self.port}/?replicaSet={REPLICA_SET}"

    @property
    def log(self) -> Path:
        """The server's log, JSON lines."""
        return self.home / "mongod.log"

    def command(self) -> Sequence[str]:
        """The command line: what all places share is in the configuration file, the rest is of this stack."""
        data = self.home / "data"
        data.mkdir(parents=True, exist_ok=True)
        return (
            str(mongod_program(self._packages)),
            *("--config", str(CONFIG)),
            *("--dbpath", str(data)),
            *("--logpath", str(self.log), "--logappend"),
            *("--bind_ip", HOST, "--port", str(self.port), "--nounixsocket"),
            *("--wiredTigerCacheSizeGB", _CACHE_GIGABYTES),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        )

    def variables(self) -> Mapping[str, str]:
        """Where unpacked shared libraries are, if any are needed."""
        return self._packages.library_path()

    def probe(self, seconds: float) -> None:
        """Be our own process, writable primary, and make a majority write durable."""
        socket.create_connection((HOST, self.port), timeout=seconds).close()
        milliseconds = int(seconds * 1000)
        client: MongoClient[dict[str, Any]] = MongoClient(
            HOST,
            self.port,
            directConnection=True,
            serverSelectionTimeoutMS=milliseconds,
            connectTimeoutMS=milliseconds,
            socketTimeoutMS=milliseconds,
        )
        with client:
            try:
                self._require_primary(client)
                durable = WriteConcern("majority", wtimeout=milliseconds, j=True)
                collection = client["local_stack"].get_collection("probe", write_concern=durable)
                collection.replace_one({"_id": "ready"}, {}, upsert=True)
            except PyMongoError as fault:
                raise NotReadyError(str(fault)) from fault

    def _require_primary(self, client: "MongoClient[dict[str, Any]]") -> None:
        # Two stacks may have picked one free port: only one of the two mongods got it.
        if client.admin.command("serverStatus", repl=0, metrics=0, wiredTiger=0)["pid"] != self.pid:
            raise NotReadyError(f"another mongod answers on port {self.port}")
        if client.admin.command("hello").get("isWritablePrimary"):
            return
        try:
            client.admin.command("replSetGetStatus")
        except OperationFailure as fault:
            if fault.code == _NOT_YET_INITIALIZED:
                client.admin.command("replSetInitiate", self._replica_set(version=1))
            elif fault.code == _NOT_A_MEMBER:
                # The data were made on another port: the set knows its member by its old address.
                old = client["local"]["system.replset"].find_one() or {"version": 1}
                client.admin.command("replSetReconfig", self._replica_set(old["version"] + 1), force=True)
            else:
                raise
        raise NotReadyError("no primary yet")

    def _replica_set(self, version: int) -> dict[str, Any]:
        members = [{"_id": 0, "host": f"{HOST}:{self.port}"}]
        return {"_id": REPLICA_SET, "version": version, "members": members}
