"""What can go wrong outside, in the words of the product: each error says by its class what to do about it."""


class Unavailable(Exception):
    """A part outside does not answer now. Nothing is known to be wrong with the work: try again later."""


class DatabaseUnavailable(Unavailable):
    """MongoDB does not answer, or not in time."""


class BrokerUnavailable(Unavailable):
    """The broker does not answer, or did not confirm. What was published may or may not be there."""


class BrokerRefused(Exception):
    """The broker will not have us: a wrong log-in, or no scheduler. Trying again does not help."""


class WrongSchema(Exception):
    """The database lacks an index the promises rest on. `python -m creator indexes` mends it."""
