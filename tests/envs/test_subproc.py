"""What only worker processes can do: die, hang, leak, outlive their owner."""

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
import toys

from sweeper.core.errors import EnvError, EnvLostError, EnvTimeoutError, EnvWorkerError, InputError
from sweeper.envs import subproc
from sweeper.envs.serial import SerialVecEnv
from sweeper.envs.subproc import SubprocVecEnv

ACT = np.zeros(4, np.int64)


@pytest.fixture(params=["forkserver", "spawn", "fork"])
def start_method(request):
    return request.param


def one_of_four(**fault):
    """Four environments of which the third is faulty."""
    fns = [partial(toys.Faulty, where="never")] * 4
    fns[2] = partial(toys.Faulty, **fault)
    return fns


def living(pids):
    """Those that run (a zombie does not)."""
    running = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                running.append(pid)
        except psutil.NoSuchProcess:
            pass
    return running


def run_to_the_fault(env):
    with env:
        env.reset()
        for _ in range(3):
            env.step(ACT)


@pytest.mark.parametrize(
    ("fault", "says"), [("kill", "was killed by SIGKILL"), ("exit", "exited with code 7")]
)
@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_worker_that_dies_is_an_error_that_names_the_environment(
    start_method, fault, says, where
):
    env = SubprocVecEnv(
        one_of_four(fault=fault, where=where), envs_per_worker=2, start_method=start_method
    )
    pids = env.worker_pids
    with pytest.raises(EnvLostError, match=rf"^environment 2 \(seed {env._seeds[2]}\): .*{says}"):
        run_to_the_fault(env)
    assert not living(pids)
    with pytest.raises(EnvError, match="closed"):
        env.reset()


@pytest.mark.parametrize("fault", ["kill", "exit"])
def test_a_worker_that_dies_while_making_environments_is_an_error(start_method, fault):
    fns = one_of_four(fault=fault, where="constructor")
    with pytest.raises(EnvLostError, match=r"^one of environments 2 to 3: its process"):
        SubprocVecEnv(fns, envs_per_worker=2, start_method=start_method)


def test_a_worker_killed_from_outside_mid_step_is_an_error():
    env = SubprocVecEnv(one_of_four(fault="hang", where="step"), envs_per_worker=2)
    pids = env.worker_pids
    with env:
        env.reset()
        env.step(ACT)
        env.step_async(ACT)
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(EnvLostError, match="killed by SIGKILL"):
            env.step_wait()
    assert not living(pids)


@pytest.mark.parametrize("fault", ["hang", "hang in C"])
@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_hanging_environment_is_an_error_that_names_it(fault, where):
    env = SubprocVecEnv(one_of_four(fault=fault, where=where), envs_per_worker=2, step_timeout=0.3)
    pids = env.worker_pids
    with pytest.raises(
        EnvTimeoutError,
        match=rf"^environment 2 \(seed {env._seeds[2]}\) took longer than step_timeout = 0.3 s",
    ):
        run_to_the_fault(env)
    assert not living(pids)


def test_a_hanging_constructor_is_an_error():
    fns = one_of_four(fault="hang", where="constructor")
    with pytest.raises(EnvTimeoutError, match="environments 2 to 3 were not made within"):
        SubprocVecEnv(fns, envs_per_worker=2, setup_timeout=0.3)


def test_closing_is_bounded_when_an_environment_hangs_in_its_close(monkeypatch):
    monkeypatch.setattr(subproc, "CLOSE_SECONDS", 0.2)
    env = SubprocVecEnv(one_of_four(fault="hang", where="close"), envs_per_worker=2)
    env.reset()
    env.close()
    assert not living(env.worker_pids)
    env.close()


def test_closing_in_the_middle_of_a_step_leaves_nothing(start_method):
    env = SubprocVecEnv([toys.Sampler] * 2, n_groups=2, start_method=start_method)
    env.reset()
    for group in (0, 1):
        env.step_async(np.zeros((1, 3), np.float32), group)
    env.close()
    assert not living(env.worker_pids)


def test_environments_are_shared_out_evenly():
    with SubprocVecEnv([toys.Clockwork] * 5, envs_per_worker=3) as env:
        assert env.n_workers == len(env.worker_pids) == 2
        assert env._rows == (slice(0, 3), slice(3, 5))
    with SubprocVecEnv([toys.Clockwork] * 5) as env:
        assert env.n_workers == min(5, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("envs_per_worker", [0, 3])
def test_a_worker_without_environments_is_refused(envs_per_worker):
    with pytest.raises(InputError, match=r"envs_per_worker must be 1 to n_envs = 2"):
        SubprocVecEnv([toys.Clockwork] * 2, envs_per_worker=envs_per_worker)


def test_functions_that_cannot_be_sent_are_refused():
    with pytest.raises(InputError, match="lambdas and local functions cannot"):
        SubprocVecEnv([lambda: toys.Clockwork()])  # noqa: PLW0108 - the point


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_worker_loads_no_torch_runs_one_thread_and_stays_on_its_core(start_method):
    core = max(os.sched_getaffinity(0))
    with (
        SubprocVecEnv([toys.ModuleReport], start_method=start_method, cpus=(core,)) as env,
        pytest.raises(EnvWorkerError, match=rf"found=\[\] threads='1' cpus=\[{core}\]"),
    ):
        env.reset()


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_worker_has_less_than_60_mb_of_memory_to_itself(start_method):
    with SubprocVecEnv([toys.Clockwork] * 2, envs_per_worker=1, start_method=start_method) as env:
        env.reset()
        private = [psutil.Process(pid).memory_full_info().uss for pid in env.worker_pids]
    assert max(private) < 60e6


def test_workers_have_the_affinity_that_their_owner_has_now():
    usable = os.sched_getaffinity(0)
    with SubprocVecEnv([toys.Clockwork]):  # a fork server runs, with all cores
        pass
    try:
        os.sched_setaffinity(0, {min(usable)})
        with SubprocVecEnv([toys.Clockwork]) as env:
            assert os.sched_getaffinity(env.worker_pids[0]) == {min(usable)}
    finally:
        os.sched_setaffinity(0, usable)


def test_a_hundred_vec_envs_leave_no_descriptor_process_or_memory_behind():
    me = psutil.Process()

    def footprint():
        return me.num_fds(), sorted(p.pid for p in me.children(True)), os.listdir("/dev/shm")

    def cycle():
        with SubprocVecEnv([toys.Clockwork] * 2, envs_per_worker=1) as env:
            env.reset()
            env.step(ACT[:2])

    cycle()  # starts the fork server, which stays
    before = footprint()
    for _ in range(100):
        cycle()
    assert footprint() == before


def test_failures_leave_no_descriptor_or_process_behind():
    me = psutil.Process()
    faults = [
        {"fault": "raise", "where": "constructor"},
        {"fault": "raise", "where": "step"},
        {"fault": "kill", "where": "step"},
        {"fault": "exit", "where": "constructor"},
    ]

    def fail(fault):
        with pytest.raises(EnvError):
            run_to_the_fault(SubprocVecEnv(one_of_four(**fault), envs_per_worker=2))

    fail(faults[0])
    before = me.num_fds(), len(me.children(True))
    for fault in faults:
        fail(fault)
    assert (me.num_fds(), len(me.children(True))) == before


def python(program, **keywords):
    """Run a program as a user's script that can import the toys."""
    here = str(Path(__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": here},
        stdout=subprocess.PIPE,
        text=True,
        **keywords,
    )


@pytest.mark.parametrize("fault", ["never", "hang", "hang in C"])
def test_nothing_outlives_an_owner_that_is_killed(start_method, fault):
    program = f"""
        import functools, toys, numpy, psutil
        from sweeper.envs.subproc import SubprocVecEnv
        fns = [functools.partial(toys.Faulty, {fault!r}, "step")] * 2
        env = SubprocVecEnv(fns, envs_per_worker=1, start_method={start_method!r})
        env.reset()
        for _ in range(2):
            env.step_async(numpy.zeros(2, int))
            if env._arrays._stepping[0] and _ == 0:
                env.step_wait()
        print(*[child.pid for child in psutil.Process().children(True)], flush=True)
        env.step_wait()
        input()
    """
    with python(program, stdin=subprocess.PIPE) as owner:
        children = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(children) == (3 if start_method == "forkserver" else 2)
        ends = [os.pidfd_open(pid) for pid in children]
        owner.kill()
    for end in ends:
        assert select.select([end], [], [], 30)[0], "outlived its owner"
        os.close(end)


def test_a_script_needs_no_main_guard():
    program = """
        import toys, numpy
        from sweeper.envs.subproc import SubprocVecEnv
        with SubprocVecEnv([toys.Clockwork] * 2) as env:
            env.reset()
            print(env.step(numpy.zeros(2, int)).observation.tolist())
    """
    with python(program) as script:
        assert script.communicate()[0] == "[[1.0], [1.0]]\n"


def test_a_function_of_the_script_itself_is_refused_with_the_remedy(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import toys
        from sweeper.core.errors import InputError
        from sweeper.envs.subproc import SubprocVecEnv
        def make():
            return toys.Clockwork()
        try:
            SubprocVecEnv([make])
        except InputError as error:
            print(error)
        """)
    )
    with python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')") as process:
        answer = process.communicate()[0]
    assert "define them in a module that can be imported" in answer


def test_what_environments_print_goes_to_stderr():
    program = """
        import toys, numpy
        from sweeper.envs.subproc import SubprocVecEnv
        with SubprocVecEnv([toys.Talker]) as env:
            env.reset()
            env.step(numpy.zeros(1, int))
        print("records")
    """
    with python(program, stderr=subprocess.PIPE) as script:
        assert script.communicate() == ("records\n", "chatter\n")


def test_a_daemonic_process_can_have_workers():
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=toys.drive, args=(results,), daemon=True)
    child.start()
    observed = results.get(timeout=60)
    child.join(60)
    results.close()
    assert child.exitcode == 0
    with SerialVecEnv([toys.Sampler] * 3, seed=4) as serial:
        np.testing.assert_array_equal(observed, serial.reset())


def test_ctrl_c_interrupts_the_owner_which_closes_its_workers():
    program = """
        import functools, signal, toys, numpy, psutil
        from sweeper.envs import subproc
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
        subproc.CLOSE_SECONDS = 0.1
        fns = [functools.partial(toys.Faulty, "hang", "step")] * 2
        try:
            with subproc.SubprocVecEnv(fns, envs_per_worker=1) as env:
                env.reset()
                env.step(numpy.zeros(2, int))
                print("stepping", flush=True)
                env.step(numpy.zeros(2, int))
        except KeyboardInterrupt:
            print("interrupted", [pid for pid in env.worker_pids if psutil.pid_exists(pid)])
    """
    with python(program, start_new_session=True, stderr=subprocess.PIPE) as owner:
        assert owner.stdout.readline() == "stepping\n"
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.communicate() == ("interrupted []\n", "")
    assert owner.returncode == 0


@pytest.mark.system
def test_workers_start_inside_a_ray_worker_and_die_with_it():
    import ray

    here = str(Path(__file__).parent)
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": here}},
    )
    try:

        @ray.remote
        class Trial:
            def start(self):
                import os

                import toys

                from sweeper.envs.subproc import SubprocVecEnv

                self.env = SubprocVecEnv([toys.Sampler] * 3, envs_per_worker=2, seed=4)
                return os.getpid(), self.env.worker_pids, self.env.reset().copy()

        trial = Trial.remote()
        pid, workers, observed = ray.get(trial.start.remote())
        with SerialVecEnv([toys.Sampler] * 3, seed=4) as serial:
            np.testing.assert_array_equal(observed, serial.reset())
        ends = [os.pidfd_open(worker) for worker in workers]
        os.kill(pid, signal.SIGKILL)
        for end in ends:
            assert select.select([end], [], [], 30)[0], "outlived its Ray worker"
            os.close(end)
    finally:
        ray.shutdown()
