"""Part 7: how many steps of time does the transport of atoms need?"""

from typing import Final

import torch

from gdelphi.inspect.result import Chart, PartResult, ResultTable, series, short
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.model.flow import SphereFlow
from gdelphi.model.flow_depth import gradient_costs, random_flow, step_changes
from gdelphi.model.transport import FlowTransport

STEPS: Final = (1, 2, 4, 8, 16, 32, 64)
GRADIENT_STEPS: Final = (4, 8, 16, 32, 64)
CLOUD_POINTS: Final = 64
HIDDEN: Final = 32


def inspect_depth(subject: Subject, on_step: OnPartStep) -> PartResult:
    """A cloud of the store carried by the model's flow, or by a random one, in 1 to 64 steps."""
    (cloud,) = subject.clouds(1, CLOUD_POINTS)
    flow, own = flow_of(subject)
    points, weights = torch.from_numpy(cloud.points), torch.from_numpy(cloud.weights)
    changes = step_changes(flow, points, weights, STEPS)
    on_step(1, 2)
    costs = gradient_costs(flow, points, weights, GRADIENT_STEPS)
    on_step(2, 2)
    whole = changes[-1].moved
    enough = next(one.steps for one in changes if one.error <= 0.05 * whole or one.steps == 64)
    most = costs[-1]
    whose = "The model's flow" if own else "A random flow (the model moves atoms by blocks)"
    return PartResult(
        verdict=(
            f"{whose} carries a cloud {short(whole)} far (W2); {enough} steps come within 5% of "
            f"64, and the adjoint method holds {short(most.adjoint_bytes / 1024)} KiB in place of "
            f"{short(most.backpropagation_bytes / 1024)} for {most.steps} steps"
        ),
        words=(
            "Layers of attention are steps of time of one flow on the sphere: attention alone, "
            "then the perceptron alone, each followed by a return to the sphere. The number of "
            "steps is free after training, and the error falls like one over it. Backpropagation "
            "holds every step in memory, the adjoint method walks them back; their gradients agree "
            "where the steps are short enough to be walked back. train.transport = "
            '"flow" moves the atoms of futures so; it has not been better than blocks '
            "(docs/flows.md)."
        ),
        charts=(
            Chart(
                "W2 from where the most steps lead",
                "steps",
                "W2",
                (
                    series("error", [one.steps for one in changes[:-1]],
                           [one.error for one in changes[:-1]]),
                    series("1 / steps", [one.steps for one in changes[:-1]],
                           [changes[0].error / one.steps for one in changes[:-1]], "guide"),
                ),
                log_x=True,
                log_y=True,
            ),
        ),
        tables=(
            ResultTable(
                "two ways to the gradient",
                ("steps", "backpropagation holds", "adjoint holds", "gradients differ by"),
                tuple(
                    (
                        str(one.steps), f"{one.backpropagation_bytes / 1024:,.0f} KiB",
                        f"{one.adjoint_bytes / 1024:,.0f} KiB", short(one.difference),
                    )
                    for one in costs
                ),
            ),
        ),
        figures=(("moved", whole), ("steps_enough", float(enough))),
    )  # fmt: skip


def flow_of(subject: Subject) -> tuple[SphereFlow, bool]:
    """The model's own flow, if it has one; else a random one of its dimension."""
    transport = subject.model.transport
    if isinstance(transport, FlowTransport):
        return transport.flow, True
    return random_flow(subject.model.config.dimension, HIDDEN, seed=subject.seed), False
