"""Cost of attention and of whole models: parameters, FLOPs and bytes, each number with its formula; and measurements on this machine."""

from typing import TYPE_CHECKING

from regard.cost.costs import Costs, plan
from regard.cost.count.roofline import Machine
from regard.cost.model.presets import presets
from regard.cost.quantity import Quantity
from regard.cost.workload import Workload
from regard.lazy_names import lazy_names
from regard.models.published.architecture import Architecture, ConfigError

if TYPE_CHECKING:
    from regard.cost.measure.machine import this_machine

__all__ = ["Architecture", "ConfigError", "Costs", "Machine", "Quantity", "Workload", "plan", "presets", "this_machine"]

if not TYPE_CHECKING:  # measuring needs torch, counting does not
    __getattr__, __dir__ = lazy_names(__name__, {"this_machine": "measure.machine"})
