"""Cost of attention and of whole models: parameters, FLOPs and bytes, each number with its formula; and measurements on this machine."""

from regard.cost.costs import Costs, plan
from regard.cost.count.roofline import Machine
from regard.cost.measure.machine import this_machine
from regard.cost.model.presets import presets
from regard.cost.quantity import Quantity
from regard.cost.workload import Workload
from regard.models.published.architecture import Architecture, ConfigError

__all__ = ["Architecture", "ConfigError", "Costs", "Machine", "Quantity", "Workload", "plan", "presets", "this_machine"]
