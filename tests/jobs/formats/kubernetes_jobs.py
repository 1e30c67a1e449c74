"""Jobs that manifests of Kubernetes can express, and manifests read from text."""

from hypothesis import strategies as st

from trnsim.jobs.formats import FORMATS
from trnsim.jobs.formats.writing import in_order
from trnsim.jobs.job import Job, KeptField, Role
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
WORDS = st.lists(st.one_of(TEXTS, st.just("")), max_size=4).map(tuple)
VARIABLES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)


@st.composite
def roles(draw, *, names=NAMES, replicas=REPLICAS, command=WORDS, **stated):
    """A role that a pod can express."""
    memory, vcpus = draw(BYTES), draw(VCPUS)
    has_either = memory is not None or vcpus is not None
    words, image = draw(command), draw(st.one_of(st.just(""), TEXTS))
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
    fields = {"region": regions, "time_limit_s": limits, "name": NAMES} | stated
    return st.builds(Job, roles=own_roles, **fields)


def with_fields(*fields):
    """Kept fields of a manifest: none, or those that are listed, in the order of their keys."""
    return st.sampled_from(((), in_order(KeptField(keys, value) for keys, value in fields)))


def read(format_name, text, folder):
    """The only spec of a format in a text."""
    path = folder / "a.yaml"
    path.write_text(text, encoding="utf-8")
    known = FORMATS[format_name]
    places = [place for document in load_documents(path) for place in known.places(document.root)]
    (place,) = places
    return known.read(place)
