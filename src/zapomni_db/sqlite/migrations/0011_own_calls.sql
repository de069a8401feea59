-- Calls of Zapomni's own tools are no longer recorded: a search found the earlier question instead
-- of its answer. Those recorded by earlier versions are deleted; pinned ones are the user's.
DELETE FROM observations WHERE obs_type = 'mcp_call' AND pinned = 0
    AND (content LIKE 'zapomni.%' OR content LIKE 'plugin_zapomni_zapomni.%');
