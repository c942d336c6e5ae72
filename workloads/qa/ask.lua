-- wrk's part of the load: asks. What is included prints the figures for the tool.

dofile("../common/wrk.lua")

local questions = {
  "How do I make a query use an index instead of scanning the whole table?",
  "What happens to a transaction when the server crashes?",
  "Which isolation levels are there, and which one is the default?",
  "How can I restore a single table from a backup?",
  "Why does vacuum not give disk space back to the operating system?",
  "What is the difference between a view and a materialized view?",
  "How are passwords stored, and how do I change the method?",
  "Can a function return a table with several columns?",
  "How do I find out which statement holds a lock that others wait for?",
  "What must be set for streaming replication to a standby server?",
}

local requests = {}
local turn = 0

function init()
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  for i, question in ipairs(questions) do
    requests[i] = wrk.format(nil, nil, nil, '{"question":"' .. question .. '"}')
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end
