"""A study of a user's own learner, against Stable-Baselines3, as a user launches it."""

from __future__ import annotations

import pytest
from documented import write_example
from system.launching import World

pytestmark = pytest.mark.system


def test_the_documented_study_runs_against_a_baseline_of_stable_baselines3(world: World) -> None:
    write_example(world.folder)
    file = world.folder / "study.yaml"
    text = file.read_text().replace("stop: {trials: 8}", "stop: {trials: 3}")
    text = text.replace("{seconds: 5}", "{env_steps: 20000}")
    file.write_text(
        text
        + "replicate: {share: 0}\n"
        + "baseline:\n"
        + "  set: {algorithm.kind: sb3, algorithm.n_steps: 64, parallelism.n_envs: 2}\n"
        + "  budget: {env_steps: 1500}\n"
    )
    launch = world.launch()
    assert launch.wait() == 0, launch.text
    world.assert_complete(3)
    assert world.sql(
        "SELECT algorithm, n_steps, budget_env_steps, count(*) FROM trials "
        "GROUP BY algorithm, n_steps, budget_env_steps ORDER BY algorithm"
    ) == [("cross_entropy:CrossEntropy", None, 20_000, 2), ("sb3", 64, 1_500, 1)]
    assert world.sql("SELECT min(updates) FROM runs") != [(0,)]
    exported = world.start("export", "cross-entropy", "--trial", "2")
    assert exported.wait() == 0
    assert "elite_share: " in exported.text
    (world.folder / "trial.yaml").write_text(exported.stdout.read_text())
    assert world.start("run", "trial.yaml").wait() == 0
    refused = world.start("export", "cross-entropy", "--trial", "2", "--as", "sb3")
    assert refused.wait() == 2
    assert "Stable-Baselines3 has no cross_entropy:CrossEntropy" in refused.text
