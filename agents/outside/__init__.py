"""Training by methods of another library, TorchRL, on the discrete environment; needs the extra `recipes`.

Modules of this package that import TorchRL are imported only where they are used.
"""

from agents.outside.settings import OutsideSettings

__all__ = ["OutsideSettings"]
