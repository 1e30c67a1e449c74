from trnsim.cli.job_document import (
    SpecReview,
    check_document,
    difference_document,
    job_title,
    price_document,
)
from trnsim.document.markdown import markdown
from trnsim.document.spreadsheet import spreadsheet
from trnsim.document.text import text
from trnsim.errors import SourceLine
from trnsim.jobs.finding import Finding
from trnsim.jobs.job import Job, JobKind, KeptField, Role
from trnsim.jobs.price import price_job
from trnsim.jobs.spec import JobSpec, TemplateValue

PLACE = SourceLine("a.yaml", 7)
FINDING = Finding("efa-count", "error", PLACE, "efa is 3; legal: 8", "a document", "set 8")
ROLE = Role(name="worker", replicas=2, least_replicas=1, instance="trn1.32xlarge", efa=3)


def spec(**fields):
    job = Job(name="\x1b[2J", roles=(ROLE,), **fields)
    template = TemplateValue("roles.0.image", "${IMAGE}", PLACE)
    return JobSpec("plan", job, SourceLine("a.yaml", 1), {}, (template,))


def test_findings_have_place_fix_and_source_and_foreign_text_is_safe():
    kept = tuple(KeptField((f"x{n}",), n) for n in range(10))
    document = check_document([(spec(kept_fields=kept), [FINDING])])
    said = text(document)
    assert "a.yaml:7: error: efa is 3; legal: 8 [efa-count]" in said
    assert "fix: set 8" in said
    assert "source: a document" in said
    assert "filled in later, so not checked: roles.0.image (${IMAGE})" in said
    assert "not understood, and kept: x0, x1, x2, x3, x4, x5, x6, x7 and 2 more" in said
    assert "1 job: 1 error" in said
    assert "\x1b" not in said
    assert spreadsheet(document).splitlines()[1].startswith("a.yaml,7,error,efa-count,")


def test_the_kind_of_a_document_is_understood_though_it_is_kept():
    header = [KeptField((name,), "v1") for name in ("apiVersion", "kind")]
    assert "not understood" not in text(check_document([(spec(kept_fields=tuple(header)), [])]))
    more = (*header, KeptField(("spec", "kind"), "v1"))
    assert "not understood, and kept: spec.kind" in text(
        check_document([(spec(kept_fields=more), [])])
    )


def test_items_of_a_list_count_as_one_name_and_long_values_are_cut():
    script = (KeptField(("script", n), "x") for n in range(3))
    kept = (*script, KeptField(("a", 0), 1))
    template = TemplateValue("roles.0.command", "$X\n" + "y" * 100, PLACE)
    job = JobSpec("plan", spec(kept_fields=kept).job, PLACE, {}, (template,))
    said = " ".join(text(check_document([(job, [])])).split())
    assert "not understood, and kept: script (3 items), a" in said
    assert "roles.0.command ($X yyy" in said
    assert "y" * 61 not in said


def test_warnings_and_errors_are_counted():
    warning = FINDING._replace(severity="warning")
    said = text(check_document([(spec(), [FINDING, warning]), (spec(), [warning])]))
    assert said.endswith("2 jobs: 1 error, 2 warnings")


def test_a_cluster_has_a_price_per_hour_and_a_bound_is_named():
    cluster = spec(kind=JobKind.CLUSTER)
    said = text(price_document([(cluster, price_job(cluster.job))]))
    assert "1 to 2 x trn1.32xlarge" in said
    assert "USD in a month of 730 hours" in said
    limited = spec(time_limit_s=3600.0)
    said = text(price_document([(limited, price_job(limited.job))]))
    assert "at most 1 h" in said
    assert "an upper bound" in said


def test_a_difference_has_what_appeared_and_what_is_gone():
    job = spec()
    price = price_job(job.job)
    other = FINDING._replace(reason="another")
    document = difference_document(
        SpecReview(job, [FINDING], price), SpecReview(job, [other], price)
    )
    said = markdown(document)
    assert "#### New findings\n\na.yaml:7: error: another" in said
    assert "#### Findings that are gone\n\na.yaml:7: error: efa is 3" in said
    assert "Fields that changed" not in said


def test_one_device_is_no_plural():
    roles = Role(devices=1, processes=2), Role(replicas=2, gpus=8, efa=1)
    job = Job(roles=roles)
    title = job_title(JobSpec("pod", job, SourceLine("a.yaml", 1), {}))
    assert title.endswith(
        ": 1 x any instance, 1 device, 2 ranks each; 2 x any instance, 8 GPUs, 1 EFA each"
    )
