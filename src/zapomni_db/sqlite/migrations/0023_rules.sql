-- More ways to state a rule are known, and facts: the newest short notes that were only searched are read again.
-- Older ones would find no room in a session.
INSERT INTO digest_queue (memory_id)
    SELECT d.memory_id FROM memory_digest d JOIN memories m ON m.id = d.memory_id
    WHERE d.class = 'note' AND m.parent = '' AND length(d.text) <= 300
        AND m.kind NOT IN ('document', 'commit', 'bug', 'transcript', 'conversation', 'log')
    ORDER BY d.updated_at DESC LIMIT 2000;

-- Memories on a storage server are compared with these by the next process that serves.
UPDATE memory_digest SET updated_at = updated_at - 1
    WHERE class = 'note' AND memory_id NOT IN (SELECT id FROM memories);
UPDATE digest_state SET version = -1;
