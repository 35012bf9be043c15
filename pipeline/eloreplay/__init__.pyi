from eloreplay.api import Calibration as Calibration
from eloreplay.api import Replay as Replay
from eloreplay.api import calibrate as calibrate
from eloreplay.api import open_run as open_run
from eloreplay.api import replay as replay

__version__: str
__all__ = ["Calibration", "Replay", "__version__", "calibrate", "open_run", "replay"]
