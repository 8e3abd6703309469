"""Our rules against torch's optimizers, step by step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sweeper.optim.first_order import SGD, Adam, RMSprop, Rule

RULES: dict[str, tuple[Callable[[Tensor], Rule], Callable[[Tensor], torch.optim.Optimizer]]] = {
    "adam": (
        lambda p: Adam(p, beta1=0.9, beta2=0.99, eps=1e-5),
        lambda p: torch.optim.Adam([p], lr=1.0, betas=(0.9, 0.99), eps=1e-5),
    ),
    "adamw": (
        lambda p: Adam(p, beta1=0.8, beta2=0.99, eps=1e-5, weight_decay=0.1),
        lambda p: torch.optim.AdamW([p], lr=1.0, betas=(0.8, 0.99), eps=1e-5, weight_decay=0.1),
    ),
    "rmsprop": (
        lambda p: RMSprop(p, alpha=0.9, eps=1e-5),
        lambda p: torch.optim.RMSprop([p], lr=1.0, alpha=0.9, eps=1e-5),
    ),
    "sgd": (
        lambda p: SGD(p, momentum=0.9),
        lambda p: torch.optim.SGD([p], lr=1.0, momentum=0.9),
    ),
    "plain sgd": (lambda p: SGD(p, momentum=0.0), lambda p: torch.optim.SGD([p], lr=1.0)),
}


@pytest.mark.parametrize("name", RULES)
def test_steps_equal_torchs(name: str) -> None:
    ours, theirs = (torch.linspace(-1, 1, 9, dtype=torch.float64) for _ in range(2))
    theirs.requires_grad_()
    make_rule, make_optimizer = RULES[name]
    rule, optimizer = make_rule(ours), make_optimizer(theirs)
    draws = torch.Generator().manual_seed(0)
    for step in range(30):
        gradient = torch.randn(9, generator=draws, dtype=torch.float64)
        rate = 0.1 / (1 + step)  # as a schedule would
        optimizer.param_groups[0]["lr"] = rate
        theirs.grad = gradient.clone()
        rule.step(ours, gradient, rate)
        optimizer.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-10, atol=1e-12)


def test_an_optimizer_does_not_import_the_compiler() -> None:
    program = (
        "import sys, torch; from sweeper.optim.build import Optimizer; "
        "from sweeper.optim.spec import AdamSpec; "
        "Optimizer(AdamSpec(), torch.zeros(3), max_grad_norm=None); "
        "print('torch._dynamo' in sys.modules)"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output == "False\n"
