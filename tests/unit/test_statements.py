"""Status lines, and sentences that say that something is over: what counts as one."""

from __future__ import annotations

import pytest

from zapomni_core.shared.statements import ended_words, is_ended_by, read_status

# A fact, and ways to say later that it is over.
CHANGES = {
    "Decision: use PostgreSQL for billing, because of transactions": [
        "We moved billing from PostgreSQL to MySQL",
    ],
    "The standup is at 9:30 on weekdays": [
        "We moved the standup from 9:30 to 10:15",
    ],
    "Sessions are stored in Memcached": [
        "Session storage was migrated from Memcached to Redis",
        "Ported session storage from Memcached to Redis",
    ],
    "CI runs on Jenkins": [
        "CI runs on GitHub Actions now (was Jenkins)",
        "CI runs on GitHub Actions, previously Jenkins",
        "We don't use Jenkins for CI anymore",
        "We do not run CI on Jenkins any more, it is GitHub Actions now",
        "We used to run CI on Jenkins; it is GitHub Actions now",
        "CI: Jenkins is gone, GitHub Actions took over",
        "We ditched Jenkins for GitHub Actions in CI",
        "Got rid of Jenkins, CI is on GitHub Actions",
        "Jenkins was phased out; CI is on GitHub Actions",
        "CI switched over from Jenkins to GitHub Actions",
        "Dropped Jenkins in favor of GitHub Actions for CI",
    ],
    "The API is served by Flask": [
        "The API was rewritten from Flask to FastAPI",
        "The API is served by FastAPI instead of Flask",
    ],
    "We use yarn for the frontend": [
        "Frontend: we replaced yarn with pnpm",
        "The frontend no longer uses yarn",
        "yarn is deprecated here, the frontend uses pnpm",
        "We stopped using yarn in the frontend",
        "The frontend has moved off yarn",
        "The frontend has been converted from yarn to pnpm",
        "We are not using yarn for the frontend any longer",
    ],
    "Releases happen every two weeks": [
        "Releases changed from every two weeks to weekly",
    ],
    "Logs go to Datadog": [
        "Logs go to Grafana Loki since March, Datadog was cancelled",
        "We cancelled Datadog; logs go to Loki",
        "Logs formerly went to Datadog; now Loki",
    ],
    "Anna owns the payment module": [
        "Ben took over the payment module from Anna",
        "Anna no longer owns the payment module",
        "The payment module was handed over from Anna to Ben",
    ],
    "Feature branches are merged by squash": [
        "We abandoned squash merges for feature branches",
    ],
    "Images are built with Docker": [
        "Images are built with Podman rather than Docker",
        "Switched image builds from Docker to Podman",
    ],
    "The timeout is 30 seconds": [
        "Raised the timeout from 30 seconds to 60",
        "The timeout was increased from 30 to 60 seconds",
        "Timeout: 60 seconds (formerly 30 seconds)",
    ],
    "Uploads are limited to 25 MB": [
        "The upload limit went up from 25 MB to 200 MB",
    ],
    "We deploy on Tuesdays": [
        "We now deploy on Thursdays, no longer on Tuesdays",
        "Deploys were moved from Tuesdays to Thursdays",
    ],
    "Error reports go to Sentry": [
        "Error reports have been moved over from Sentry to GlitchTip",
        "Sentry has been turned off, errors are in GlitchTip",
    ],
    "The mobile app is written in React Native": [
        "The mobile app is being rewritten in Flutter, React Native is history",
        "The mobile app went from React Native to Flutter",
    ],
    "Python 3.9 is the minimum version": [
        "Bumped the minimum Python version from 3.9 to 3.11",
    ],
    "Secrets live in .env files": [
        "Secrets live in Vault now instead of .env files",
        "We stopped keeping secrets in .env files",
        "Secrets: .env files were abolished, use Vault",
    ],
    "Kim is the product owner": [
        "Lee replaced Kim as product owner",
        "Kim used to be the product owner, now it is Lee",
    ],
    "The office is in Hamburg": [
        "The office moved from Hamburg to Bremen",
    ],
    "Tickets are tracked in Jira": [
        "Tickets moved out of Jira into Linear",
        "Jira was replaced by Linear for tickets",
        "Jira has been retired; tickets live in Linear",
    ],
    "Batch jobs run every night at 2": [
        "Batch jobs no longer run at night, they run hourly",
        "Shifted the nightly batch jobs from 2 to 4",
    ],
    "The cache TTL is 5 minutes": [
        "Cache TTL reduced from 5 minutes to 30 seconds",
        "The cache TTL is 30 seconds (previously 5 minutes)",
    ],
    "Use black for formatting": [
        "Formatting is done by ruff format, we dropped black",
        "black is no more, formatting is ruff's job",
    ],
    "Webhooks are signed with SHA1": [
        "Webhooks are signed with SHA256; SHA1 was removed",
        "Webhook signatures changed from SHA1 to SHA256",
    ],
}
# A fact, and a later sentence with the same words that leaves it true.
STILL_TRUE = [
    ("CI runs on Jenkins", "Jenkins is used to run CI for the mobile app"),
    ("CI runs on Jenkins", "The Jenkins CI was not changed"),
    ("We use yarn for the frontend", "The yarn cache of the frontend moved from /tmp to /var"),
    ("Logs go to Datadog", "Logs from Datadog are exported to S3"),
    ("Images are built with Docker", "The Docker image was built from scratch"),
    ("The API is served by Flask", "The API client downloads data from Flask"),
    (
        "Sessions are stored in Memcached",
        "Sessions were moved from the web tier to their own service",
    ),
    ("Anna owns the payment module", "Ben moved from Berlin to Anna's team"),
    ("The timeout is 30 seconds", "The request went from the proxy to the API in 30 seconds"),
    (
        "Always run the tests before a commit",
        "We used to forget the tests; always run them before a commit",
    ),
    ("We deploy on Tuesdays", "We used to have trouble with deploys on Mondays"),
    ("Uploads are limited to 25 MB", "Uploads removed from the queue are limited to 25 MB, too"),
    ("Use uv, not pip", "Python packages: uv is used to install them"),
    ("Releases are cut from main", "Feature branches are cut from main, too"),
    ("Redis is our cache", "The cache was moved from us-east-1 to eu-west-1, still Redis"),
    ("Backups are kept for 30 days", "Backups older than 30 days are removed"),
    ("The admin is Anna", "Anna changed the admin password from the console"),
    ("Error reports go to Sentry", "Error reports from Sentry go to the on-call engineer"),
    (
        "The mobile app is written in React Native",
        "The mobile app went from alpha to beta; React Native stays",
    ),
    (
        "Python 3.9 is the minimum version",
        "Python 3.8 is not supported any more, 3.9 is the minimum version",
    ),
    ("Secrets live in .env files", "Never commit .env files, secrets live there"),
    ("Kim is the product owner", "Kim moved from Berlin to Hamburg, and stays product owner"),
    ("Tickets are tracked in Jira", "Jira tickets are moved from Todo to Done by the bot"),
    ("Batch jobs run every night at 2", "The slowest batch job was reduced from 40 minutes to 10"),
    ("The cache TTL is 5 minutes", "Cache hits rose from 60 to 80 percent"),
    ("Use black for formatting", "black is used to format the code before commits"),
    ("Webhooks are signed with SHA1", "Webhook logs are removed after 30 days"),
    ("Deploy with make deploy", "If make deploy is cancelled, run make rollback"),
    ("The queue is RabbitMQ", "Messages removed from RabbitMQ are kept in the queue archive"),
    ("All services log JSON", "Previously all services had to be restarted after a deploy"),
    ("Tests run in Docker", "Tests that are not run in Docker any more than once fail"),
    (
        "The main database is Postgres",
        "We renamed the main database from app to core; it is Postgres",
    ),
    (
        "Invoices are sent on the 1st",
        "Invoices were previously checked by Kim before they are sent",
    ),
    (
        "Rate limit is 100 per minute",
        "Requests dropped by the rate limit are logged, 100 per minute at most",
    ),
]


def test_a_status_counts_below_its_heading_and_after_blank_lines():
    assert read_status("# One\n\n## Status\n\nSuperseded\n").ended == "superseded"


def test_a_line_without_any_word_of_a_status_ends_the_section():
    assert read_status("# One\n\n## Status\n\nAccepted by all\n\nSuperseded\n").ended == ""


def test_a_status_is_read_in_any_case_among_lines_of_code():
    text = "state = load()\nprint(state)\n# STATUS: Replaced by ADR-0046\nreturn state\n"
    status = read_status(text)
    assert (status.ended, status.by) == ("superseded", "ADR-0046")


@pytest.mark.parametrize(
    ("fact", "change"), [(fact, change) for fact, changes in CHANGES.items() for change in changes]
)
def test_a_sentence_of_change_ends_an_older_fact(fact, change):
    assert is_ended_by(fact, change)
    assert not is_ended_by("The kitchen plan is on the second shelf", change)


@pytest.mark.parametrize(("fact", "later"), STILL_TRUE)
def test_a_sentence_about_the_same_things_does_not(fact, later):
    assert not is_ended_by(fact, later)


@pytest.mark.parametrize(
    "text",
    [
        "moved " + "a " * 40_000,
        "moved a b c d e f from " * 4000,
        "not " + "x " * 30_000 + "any",
        "took over " * 8000,
        "if " * 20_000 + "x is gone",
        "(was " * 20_000,
    ],
)
def test_long_texts_of_cues_are_read_in_a_moment(text):
    # Each took minutes if a pattern went back for every word: the suite's time limit would end it.
    assert all(len(named) <= 5 for named in ended_words(text))
