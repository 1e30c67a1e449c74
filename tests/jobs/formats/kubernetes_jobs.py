"""Jobs that manifests of Kubernetes can express, and manifests read from text."""

from dataclasses import replace

from hypothesis import strategies as st

from trnsim.jobs.formats import FORMATS
from trnsim.jobs.formats.writing import IMAGE, in_order
from trnsim.jobs.job import Job, JobKind, KeptField, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.reader import load_documents

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)
COUNTS = st.one_of(st.none(), st.integers(0, 16), st.just(2**31 - 1))
BYTES = st.one_of(
    st.none(),
    st.integers(1, 2**53),
    st.builds(lambda count: count << 30, st.integers(1, 4096)),
    st.just(2**63 - 1),
)
VCPUS = st.one_of(st.none(), st.integers(1, 200_000).map(lambda milli: milli / 1000))
REPLICAS = st.integers(0, 64)
IMAGES = st.one_of(st.just(""), TEXTS.filter(lambda text: text != IMAGE))  # which is read as none
WORDS = st.lists(st.one_of(TEXTS, st.just("")), max_size=4).map(tuple)
VARIABLES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)


@st.composite
def roles(draw, *, names=NAMES, replicas=REPLICAS, command=WORDS, **stated):
    """A role that a pod can express."""
    memory, vcpus = draw(BYTES), draw(VCPUS)
    has_either = memory is not None or vcpus is not None
    words, image = draw(command), draw(IMAGES)
    variables = st.lists(st.tuples(VARIABLES, st.one_of(st.just(""), TEXTS)), max_size=3)
    return Role(
        name=draw(names),
        replicas=draw(replicas),
        instance=draw(st.sampled_from(("", "trn2.48xlarge", "ml.p5.48xlarge"))),
        devices=draw(COUNTS),
        cores=draw(COUNTS),
        gpus=draw(COUNTS),
        efa=draw(COUNTS),
        vcpus=vcpus,
        memory_bytes=memory,
        hugepages_bytes=draw(BYTES) if has_either else None,
        shm_bytes=draw(BYTES),
        capabilities=draw(st.sampled_from(((), ("IPC_LOCK",), ("SYS_PTRACE", "IPC_LOCK")))),
        is_privileged=draw(st.booleans()),
        image=image,
        environment=tuple(draw(variables)),
        command=words,
        entry_words=draw(st.integers(0, len(words))) if image else len(words),
        **{name: draw(strategy) for name, strategy in stated.items()},
    )


def jobs(own_roles, **stated):
    """A job of one manifest."""
    limits = st.one_of(st.none(), st.sampled_from((1.0, 3600.0, 2.0**31 - 1)))
    regions = st.sampled_from(("", "us-east-2"))
    models = st.sampled_from(("", "llama-3.1-8b"))
    fields = {"region": regions, "time_limit_s": limits, "name": NAMES, "model": models} | stated
    return st.builds(Job, roles=own_roles, **fields)


def with_fields(*fields):
    """Kept fields of a manifest: none, or those that are listed, in the order of their keys."""
    return st.sampled_from(((), in_order(KeptField(keys, value) for keys, value in fields)))


def alone(own_roles):
    """Tuples of one role."""
    return own_roles.map(lambda role: (role,))


def without_command(own_roles):
    """Roles whose containers start Ray itself."""
    return own_roles.map(lambda role: replace(role, entry_words=0))


def with_processes(own):
    """Roles whose commands start the ranks, or that all have as many."""
    ranks = [started_ranks(role.command) for role in own]
    stated = tuple(replace(role, processes=n) for role, n in zip(own, ranks, strict=True))
    return st.sampled_from((stated, tuple(replace(role, processes=32) for role in own)))


def with_sidecar(job):
    """A pod of two containers; the one with accelerators is the role."""
    role = replace(job.roles[0], gpus=1, environment=(("A", "b"),))
    return replace(job, roles=(role,), kept_fields=SIDECAR)


def ray_jobs(words, **stated):
    """A head with a command, and groups that do not grow, or from fewer."""
    head = without_command(roles(names=st.just("head"), replicas=st.just(1), command=words))
    groups = st.lists(
        without_command(roles(least_replicas=COUNTS, command=st.just(()))).filter(
            lambda role: role.replicas != role.least_replicas
        ),
        max_size=2,
    )
    return jobs(st.tuples(head, groups).map(lambda own: (own[0], *own[1])), **stated)


SIDECAR = in_order(
    KeptField(keys, value)
    for keys, value in (
        (("metadata", "labels", "a"), "b"),
        (("spec", "containers", 0, "image"), "side"),
        (("spec", "containers", 0, "name"), "side"),
        (("spec", "containers", 1, "env", 1, "name"), "B"),
        (("spec", "containers", 1, "env", 1, "valueFrom", "fieldRef", "fieldPath"), "x"),
        (("spec", "containers", 1, "volumeMounts", 0, "mountPath"), "/x"),
        (("spec", "containers", 1, "volumeMounts", 0, "name"), "x"),
        (("spec", "volumes", 0, "name"), "x"),
    )
)
ONE = st.just(1)
PURCHASES = st.sampled_from(("", "spot", "on_demand", "capacity_block"))
PODS = jobs(alone(roles(replicas=ONE)), purchase=PURCHASES)
SERVERS = jobs(
    alone(roles()).map(lambda own: (replace(own[0], gpus=own[0].gpus or 1),)),
    kind=st.just(JobKind.SERVING),
    time_limit_s=st.none(),
)
SERVERS_OF_SETS = {
    "kind": st.just(JobKind.SERVING),
    "time_limit_s": st.none(),
    "copies": st.sampled_from((0, 1, 2, 1_000_000)),
    "kept_fields": with_fields((("spec", "startupPolicy"), "LeaderReady")),
}
MASTERS = roles(names=st.just("Master"), replicas=ONE)
WORKERS = roles(
    names=st.just("Worker"),
    least_replicas=COUNTS,
    command=st.one_of(WORDS, st.just(("torchrun", "--nproc-per-node", "4", "a"))),
)
JOBS = {
    "pod": st.one_of(PODS, SERVERS, PODS.map(with_sidecar)),
    "job": st.one_of(
        jobs(
            alone(roles()),
            kept_fields=with_fields((("spec", "backoffLimit"), 0)),
            purchase=PURCHASES,
        ),
        jobs(alone(roles(replicas=ONE)), copies=st.integers(2, 2**31 - 1)),
    ),
    "jobset": jobs(
        st.lists(roles(), min_size=1, max_size=3).map(tuple),
        kept_fields=with_fields(
            (("spec", "failurePolicy", "maxRestarts"), 3), (("spec", "suspend"), True)
        ),
    ),
    "pytorchjob": jobs(
        st.one_of(alone(WORKERS), alone(MASTERS), st.tuples(MASTERS, WORKERS)).flatmap(
            with_processes
        ),
        kept_fields=with_fields((("spec", "runPolicy", "backoffLimit"), 3)),
    ),
    "hyperpod": st.one_of(
        jobs(
            st.lists(
                roles(command=st.one_of(WORDS, st.just(("hyperpodrun", "--nproc_per_node=4")))),
                min_size=1,
                max_size=3,
            ).flatmap(with_processes),
            kept_fields=with_fields((("spec", "runPolicy", "jobMaxRetryCount"), 3)),
        ),
        jobs(alone(roles(least_replicas=COUNTS))),
    ),
    "leaderworkerset": st.one_of(
        jobs(alone(roles(names=st.just("worker"), replicas=st.integers(1, 64))), **SERVERS_OF_SETS),
        jobs(
            st.tuples(roles(names=st.just("leader"), replicas=ONE), roles(names=st.just("worker"))),
            **SERVERS_OF_SETS,
        ),
    ),
    "mpijob": jobs(
        st.tuples(
            roles(names=st.just("Launcher"), replicas=ONE),
            roles(names=st.just("Worker"), processes=st.one_of(st.none(), st.integers(1, 128))),
        )
    ),
    "rayjob": st.one_of(
        ray_jobs(WORDS, kept_fields=with_fields((("spec", "suspend"), True))),
        ray_jobs(st.just(()), kind=st.just(JobKind.CLUSTER), time_limit_s=st.none()),
    ),
}
"""Jobs by format."""


def read(format_name, text, folder):
    """The only spec of a format in a text."""
    path = folder / "a.yaml"
    path.write_text(text, encoding="utf-8")
    known = FORMATS[format_name]
    places = [place for document in load_documents(path) for place in known.places(document.root)]
    (place,) = places
    return known.read(place)
