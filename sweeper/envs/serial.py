"""`SerialVecEnv`: every environment in this process. The oracle, and often fast enough."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from sweeper.core.errors import InputError
from sweeper.envs.arrays import VecArrays
from sweeper.envs.block import ActionMode, EnvBlock, EnvFn, close_envs, env_seeds, make_envs
from sweeper.envs.groups import split
from sweeper.envs.in_process import InProcessVecEnv


class SerialVecEnv(InProcessVecEnv):
    """A VecEnv without processes; see `sweeper.envs.vec_env.VecEnv` for the contract.

    Raises InputError for no environments, one instance behind several functions, spaces that
    differ or that arrays cannot hold; EnvWorkerError for an environment that raises.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        seed: int = 0,
        n_groups: int = 1,
        action: ActionMode = "none",
    ) -> None:
        groups = split(len(env_fns), n_groups, "n_groups")
        self._seeds = env_seeds(seed, len(env_fns))
        envs = make_envs(env_fns, self._seeds)

        def block(rows: slice, arrays: VecArrays) -> EnvBlock:
            return EnvBlock(
                envs[rows],
                self._seeds[rows],
                arrays,
                first_index=rows.start,
                action=action,
                cursor=np.zeros(1, np.int32).data,
            )

        close_all = partial(close_envs, envs, self._seeds)
        try:
            super().__init__(
                envs[0].observation_space,
                envs[0].action_space,
                n_envs=len(envs),
                groups=groups,
                action=action,
                make_block=block,
                close_all=close_all,
            )
        except InputError:
            close_all()
            raise
