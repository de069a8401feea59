"""Prompts as people write them, labelled before the rules were written.

Each has what the inbox should be given of it: nothing, or words that a candidate must contain.
"""

# The rules were made with these.
DEV: list[tuple[str, str]] = [
    # Asked to remember.
    ("Remember that the staging database is read-only on Sundays.", "staging database"),
    ("please remember: invoices are numbered per calendar year", "invoices are numbered"),
    ("remember to run the linter before you commit", "run the linter"),
    ("Fix the failing test. Also keep in mind that CI runs on Python 3.11.", "CI runs on"),
    ("Don't forget that the API returns cents, not euros.", "cents, not euros"),
    ("note that prices are stored in cents everywhere in this repo", "prices are stored"),
    ("For future reference: the vendor folder is generated, edit the .proto files", "vendor"),
    # From now on.
    ("From now on use pnpm instead of npm.", "pnpm"),
    ("going forward, please write commit messages in English", "commit messages in English"),
    ("ok looks good. from now on ask me before you touch the migrations", "touch the migrations"),
    ("Whenever you add an endpoint, add it to openapi.yaml too.", "openapi.yaml"),
    # Always and never.
    ("Always run make lint before pushing.", "make lint"),
    ("never force-push to main", "force-push"),
    ("Never commit directly to main, open a PR.", "open a PR"),
    ("we always squash when merging", "squash"),
    ("You should never log customer emails.", "customer emails"),
    ("I always want type hints on public functions", "type hints"),
    ("Tests must always use the fake clock.", "fake clock"),
    ("add the retry, and always use stamina for retries", "stamina"),
    # Corrections.
    ("no, use uv, not pip", "use uv"),
    ("No. We use tabs in this project.", "tabs"),
    ("that's wrong, we deploy on Tuesdays", "deploy on Tuesdays"),
    ("That's not how we do it here: fixtures live in tests/fixtures.", "fixtures live"),
    ("don't use print for debugging, use the logger", "use the logger"),
    ("Please don't add comments that repeat the code.", "comments that repeat"),
    ("Stop adding emojis to commit messages.", "emojis"),
    ("I told you the port is 8443, not 8080", "8443"),
    ("actually we moved to Postgres 16 last month", "Postgres 16"),
    ("wrong, the config lives in settings.toml", "settings.toml"),
    ("we don't use lodash here", "lodash"),
    ("Use httpx instead of requests.", "httpx"),
    ("nope, the branch is called trunk, not main", "trunk"),
    ("you should have used the builder from tests/builders.py", "tests/builders.py"),
    # Nothing to remember.
    ("fix the login bug", ""),
    ("Do you remember what we decided about caching?", ""),
    ("what should I always check before a release?", ""),
    ("remember me checkbox is not working on the login page", ""),
    ("the test always fails on CI", ""),
    ("it never returns when the queue is empty", ""),
    ("never mind, I found it", ""),
    ("don't worry about the docs", ""),
    ("no", ""),
    ("no, that's fine", ""),
    ("no thanks", ""),
    ("no, go ahead", ""),
    ("I don't know why this breaks", ""),
    ("why don't we use a queue here?", ""),
    ("don't push yet", ""),
    ("remember when we changed the parser? look at that commit", ""),
    ("The cache never expires, please investigate.", ""),
    ("can you explain why we never close the connection?", ""),
    ("```\n# always use this\nnever(mind)\n```\nwhat does this do", ""),
    ("> From now on all users must reset their passwords.\n\nsummarize this mail", ""),
    ("rename `always_use_cache` to `use_cache`", ""),
    ("add a function that remembers the last value", ""),
    ("translate 'always use a helmet' into German", ""),
    ("there is no such file, create it", ""),
    ("don't stop", ""),
    ("no problem, continue with the next task", ""),
    ("go on", ""),
    ("I never said that. Anyway, show me the diff", ""),
    (
        "Here is the style guide, check whether our code follows it:\n\n# Style guide\n"
        + "\n".join(
            f"- Always do thing number {number} before you never do the other"
            for number in range(20)
        ),
        "",
    ),
    (
        """Why does this fail?

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    always()
ValueError: never use a naive datetime
""",
        "",
    ),
    # What is so here.
    ("We use tabs, not spaces", "tabs"),
    ("In this repo commits are signed", "signed"),
    ("You should use the existing helper in utils instead of writing a new one", "helper"),
    ("note: CI only runs on main", "CI only runs"),
    ("make sure you always run prettier before committing", "prettier"),
    ("Our convention is kebab-case for file names", "kebab-case"),
    ("In this repo, add a script that lists the tests", ""),
    ("use the second option", ""),
]

# Nothing was changed after these were run.
HELD_OUT: list[tuple[str, str]] = [
    ("Remember, we support only Firefox ESR and Chrome.", "Firefox ESR"),
    ("Please keep in mind our customers are in two time zones.", "two time zones"),
    ("make a note that the billing service has no staging environment", "billing service"),
    ("from here on out, name branches feature/TICKET", "feature/TICKET"),
    ("In this repo always import datetime as dt.", "datetime as dt"),
    ("Never edit generated files by hand.", "generated files"),
    ("please never run the e2e suite without asking me", "e2e suite"),
    ("We never mock the database in integration tests.", "mock the database"),
    ("no, put it under src/adapters", "src/adapters"),
    ("No, we don't support Windows.", "support Windows"),
    ("That is incorrect. The limit is 50 requests per minute.", "50 requests"),
    ("that's not right, the fee is 2%", "2%"),
    ("Do not use sudo in scripts.", "sudo"),
    ("don't touch package-lock.json, regenerate it", "package-lock.json"),
    ("stop using any in the types", "any in the types"),
    ("Actually, the deadline moved to Friday.", "moved to Friday"),
    ("not pytest-mock, we use plain fakes", "plain fakes"),
    ("Please use British spelling instead of American.", "British spelling"),
    ("I prefer small commits with one change each", "small commits"),
    ("looks good, but don't abbreviate variable names", "abbreviate"),
    ("you must always ask before deleting files", "before deleting"),
    ("every time you change the schema, bump the version in schema.py", "bump the version"),
    ("how do I always get the newest row?", ""),
    ("is it true that sqlite never shrinks the file", ""),
    ("this has always been broken", ""),
    ("The button should remember its state after reload", ""),
    ("don't bother with the changelog this time", ""),
    ("no idea, check the logs", ""),
    ("No, wait.", ""),
    ("no, let me try first", ""),
    ("Write a test that the session is never null.", ""),
    ("the docs say 'never call this directly', is that still true?", ""),
    ("actually, can you show me the file first?", ""),
    ("that's wrong", ""),
    ("wrong file, open the other one", ""),
    ("I don't see the error, run it again", ""),
    ("Instead of polling, could we use a webhook?", ""),
    ("show me where we always retry", ""),
    ("remembering the state costs memory, measure it", ""),
    ("you don't need to do that, thanks", ""),
    ("don't you think this is too slow", ""),
    ("the user always sees an empty page after login, find out why", ""),
]
