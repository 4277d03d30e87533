"""What stops the demonstration before it can be judged."""


class DemoError(Exception):
    """The demonstration could not go on; the text is one or a few lines for the person who watches."""
