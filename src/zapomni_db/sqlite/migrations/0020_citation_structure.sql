-- What cited code does, whatever its comments and formatting are, and what the last check said.

ALTER TABLE code_citations ADD COLUMN structure TEXT NOT NULL DEFAULT '';
ALTER TABLE code_citations ADD COLUMN state TEXT NOT NULL DEFAULT '';
