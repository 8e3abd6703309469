"""Where a network runs, and how arrays get there."""

from __future__ import annotations

from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from sweeper.core.errors import InputError


def device_for(name: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device of that name. Raises InputError for `cuda` where torch can use none."""
    if name == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    if name == "auto":
        return torch.device("cpu")
    raise InputError(
        "algorithm.network.device: cuda: there is no CUDA device here that this torch can use; "
        "cpu and auto run without one"
    )


def tensor_on(device: torch.device, array: NDArray[Any]) -> Tensor:
    """The array on a device: its own memory on the CPU; elsewhere copied through pinned memory,
    while the CPU goes on."""
    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
