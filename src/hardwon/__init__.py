"""hardwon keeps what coding agents learned the hard way."""

__version__ = "0.1.0"
