"""Which notes state a rule or a lasting fact: every line was written before it was tried."""

from __future__ import annotations

import pytest

from zapomni_core.modules.memories import digest_class
from zapomni_core.modules.memories.rules import find_rule

RULES = """
Deployments go out on Tuesdays and Thursdays
Ship on Wednesday afternoons only
No deploys on Fridays
Nobody merges without a green CI
All endpoints return JSON in camelCase
Use tabs in Go files
Run `make lint` first
Our API is versioned in the path
Migrations have to be reversible
Secrets belong in Vault
Ask Priya before touching the billing schema
Log in JSON, one line per event
Don't touch generated files in gen/
The staging database may be dropped at any time
Please use British spelling in docs
Every service owns its database
Code review within one working day
Nothing gets merged on release day
Prod access requires a ticket
I prefer short answers
Answer in German
Use pnpm
Squash and merge
Keep functions under 50 lines
Let's use uv for everything
Backwards compatibility matters: no breaking changes in minor versions
Go through the load balancer, not directly to the pods
The changelog is updated with every PR
React components are functions, not classes
Indent with two spaces
My name is Lena, I work on the mobile team
I'm using zsh on macOS
Speak to me in Czech
The user wants concise commit messages
User prefers tests in pytest style without classes
Terraform state is in S3, do not run apply locally
Use structured logging via structlog
pnpm, not npm
Lint before pushing
Reviews: at least one person from the owning team
Don't mock the database in integration tests
User's timezone is Europe/Prague
Start the dev server with npm run dev
Squash commits when merging
Do the smallest change that works
Integration tests need Docker running
Prefer composition over inheritance
Code owners have to approve changes in infra/
For dates we use date-fns, moment is banned
Be brief in code comments
Keep PRs under 400 lines
All times UTC
Deploy via ArgoCD only
Используй uv вместо pip
Деплоим по вторникам
Wir verwenden Ruff
Deploys sind dienstags
Il faut deux relectures
Usamos uv
Hay que ejecutar los tests
我们用 pnpm
Používej uv
Before touching the scheduler, read docs/scheduler.md
If a test is flaky, quarantine it the same day
Whenever the schema changes, regenerate the client
For bigger refactorings, write an ADR first
Support for IE is not needed
Bug fixes come at least with one regression test
Secrets are never committed
I'd rather have one long function than five tiny ones
"""
FACTS = """
Releases are cut on the first Monday of the month
Two approvals are needed to merge to main
Commit messages follow Conventional Commits
Tests live next to the code they test
Branch names start with the ticket number
Money is stored as integer cents
Times are stored in UTC
We're on Python 3.12
Feature flags expire after 30 days
Error messages end without a period
Standup is at 9:30
New features sit behind a flag
Public functions need docstrings
GraphQL schema changes go through the API guild
CSS classes use BEM
Hotfixes branch off the last tag
Production is frozen from December 15
Customers in the EU are served from Frankfurt
Python dependencies are managed with uv
The retry limit is 5
Passwords are hashed with argon2id
Ports 8000-8100 are reserved for dev servers
IDs are ULIDs everywhere
Version numbers follow SemVer
API errors use RFC 9457 problem details
The project uses FastAPI with SQLAlchemy 2
Environment variables are read from .env.local
Database password lives in 1Password
Snapshots are updated with jest -u
Docs are in Markdown, wrapped at 100 columns
Strings are double-quoted
The design system is called Aurora and lives in packages/ui
Generated clients are checked in
New endpoints get an OpenAPI entry
Feature work goes to develop, hotfixes to main
Alerts go to #ops-alerts
Nightly builds run at 2 am UTC
Timestamps use ISO 8601
Names of test files end in _test.go
Customers are addressed formally in German texts
Currency amounts carry the currency code
The parser is a recursive descent one
The API listens on port 8080
The staging database is a copy of production
Python 3.12 is the minimum
Prod is in eu-west-1
Package manager: pnpm
Timeouts: 5 seconds for reads, 30 for writes
The cache key includes the tenant id
The gateway forwards requests to the order service
Search runs on OpenSearch
Backups: daily at 3, kept for 30 days
"""
REPORTS = """
The login page crashed when the token was empty
Anna fixed the memory leak in the worker
The migration took four hours last night
Redis was slow because of swap
Talked to the customer about invoices
Found out that the cache was never filled
The tests failed on Windows yesterday
Version 2.3 was released in May
Benchmarks: 120 ms before, 80 ms after
The root cause was a race in the scheduler
Investigated the flaky test test_retry: it depends on the clock, patched it
The OOM was caused by loading the whole CSV; switched to streaming
Meeting with Acme on Monday: they want SSO by Q3
PR 481 merged, follow-up is PR 490
Sven is on vacation until Tuesday
Fix the login bug
Look into the slow query on orders
Idea: cache the results of the geocoder
The importer crashes on files larger than 2 GB
Upgrading Django to 5.1 broke the admin templates
Release 2.4.0 went out on Tuesday
We tried Kafka and dropped it because of ops cost
Refactored the parser into three modules
The customer reported a wrong total in invoice 4711
Read about CRDTs: Yjs looks promising
It takes 12 minutes to run the full suite on my laptop
Log files grew to 40 GB over the weekend
Why does the build need 8 GB of memory?
Performance of the search improved by 30 percent after the index
Call with the vendor about pricing, they send an offer next week
Stack trace points to line 88 of scheduler.py
Session on Tuesday: discussed the roadmap for Q1
Pushed the fix for the timezone bug to staging
Jonas suggested splitting the service in two
The deploy on Friday took down the checkout for ten minutes
Learned that SQLite locks the whole file while writing
Customer Foo has 12k users and pays yearly
Merged the branch after three review rounds
The heap grows by 5 MB per request, probably the session cache
Next: write the migration, then the endpoint
Compared Qdrant and pgvector, pgvector was enough
Anna will take over the billing module next month
Spent two hours on a missing semicolon
There is a memory leak in the websocket handler
Blog post about our outage is a draft in Notion
Bumped lodash to 4.17.21 because of the CVE
The new index made the query ten times faster
Demo for the board went well
The old API is down since this morning
Interview with the candidate: strong in Rust, less in SQL
There is a race in the scheduler
Progress: 3 of 5 endpoints moved
Root cause: a race in the scheduler
Symptom: the page is blank after login
The build is broken on main
The draft is in Notion
The disk of the runner is full
The page loads in 3 seconds now
Исправил ошибку в парсере
Der Parser war langsam
Le test a échoué hier
修复了登录错误
Perhaps we should split the monolith along the billing boundary
Wondering whether we should always use Bazel
The nightly job never finished because the lock table was full
The old worker never released its lock
The intern must have deleted the bucket by accident
Every test failed after the upgrade of pytest
We talked about always-on profiling
I think the parser should be rewritten in Rust
Katya suggested that all tests should run in parallel
Someone proposed that we never use an ORM
Ran the load test before the release and found nothing
Read a post about trunk-based development
The fault appears only on Firefox
Traceback: ValueError in parser.py line 12
We need to talk about the budget
The designer never saw the final version
All tests passed after the fix
A customer reported that exports never arrive
I should look at the failing cron job
Sometimes the websocket disconnects
"""


@pytest.mark.parametrize("text", RULES.strip().splitlines())
def test_a_note_that_says_how_things_are_done_is_a_rule(text):
    assert digest_class("note", False, text) == "rule"
    assert digest_class("document", False, text) == "note"


@pytest.mark.parametrize("text", FACTS.strip().splitlines())
def test_a_note_that_says_what_is_so_until_further_notice_is_a_fact(text):
    assert digest_class("note", False, text) == "fact"
    assert digest_class("document", False, text) == "note"


@pytest.mark.parametrize("text", REPORTS.strip().splitlines())
def test_a_note_that_says_what_happened_is_neither(text):
    assert digest_class("note", False, text) == "note"


def test_in_a_longer_text_only_the_words_of_a_rule_make_one():
    description = "The parser reads lines. Tokens are kept in a list. It returns a tree. " * 3
    assert digest_class("note", False, description) == "note"
    assert find_rule(description + "Never change the tree.") == ("rule", len(description))


def test_orders_are_found_after_what_introduces_them():
    assert digest_class("note", False, "Please also: keep functions under 50 lines") == "rule"
    assert find_rule("Ada fixed the importer in March. Use the new one.") == ("rule", 33)


def test_a_rule_comes_before_a_fact_of_the_same_note():
    assert find_rule("Times are stored in UTC. Never convert them.") == ("rule", 25)
    assert find_rule("The README is long. Times are stored in UTC.") == ("fact", 20)
