"""A stand-in for Expo's push service: its protocol, its limits, faults to order, and the phones behind it.

Run it with ``python -m deploy.local.sandbox --port N``; tests use ``process.SandboxProcess``.
``docs/sandbox.md`` describes what it answers. It shares no code with the product that it judges.
"""
