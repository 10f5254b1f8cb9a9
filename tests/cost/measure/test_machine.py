"""The peak rates of the machine the tests run on."""

from regard.cost import this_machine


def test_this_machine_is_measured() -> None:
    machine = this_machine("fp32", 0.02)
    assert machine.threads >= 1
    assert machine.flops > 1e8
    assert machine.bandwidth > 1e8
