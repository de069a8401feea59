local M = {}
local util = require("a.util")
-- Goes.
function M.go(a)
  local x = util.make(a)
  x:run(1)
  M.help()
end
function M:meth(a) self.y:z(); return self end
local function loc(a) return a end
M.anon = function(a) loc(a) end
local K = 1
return M
