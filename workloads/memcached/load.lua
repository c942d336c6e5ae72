-- SPDX-License-Identifier: GPL-2.0-only
-- load.lua PORT CONNECTIONS SECONDS: asks memcached on 127.0.0.1 and prints the figures.
--
-- One thread waits for all connections with poll. Each has one request in flight, so the load
-- is a closed one. The clock of a request runs from just before it is sent until its answer is
-- read whole.

local ffi = require("ffi")
local bit = require("bit")

ffi.cdef [[
  typedef struct { long sec; long nsec; } timespec_t;
  typedef struct { int fd; short events; short revents; } pollfd_t;
  typedef struct { uint16_t family; uint16_t port; uint32_t address; uint8_t zero[8]; } address_t;
  int clock_gettime(int clock, timespec_t *now);
  int socket(int family, int type, int protocol);
  int connect(int fd, const address_t *address, unsigned int length);
  int setsockopt(int fd, int level, int option, const int *value, unsigned int length);
  int poll(pollfd_t *fds, unsigned long count, int timeout_ms);
  ssize_t send(int fd, const char *bytes, size_t length, int flags);
  ssize_t recv(int fd, char *bytes, size_t length, int flags);
  char *strerror(int number);
]]

local KEYS = 10000
local VALUE = string.rep("x", 1024)
local GETS_PER_SET = 9
-- As long as wrk waits in the other workloads. Nothing at all is answered for so long only if
-- memcached hangs.
local TIMEOUT_MS = 10000
local CLOCK_MONOTONIC, AF_INET, SOCK_STREAM = 1, 2, 1
local IPPROTO_TCP, TCP_NODELAY, POLLIN, MSG_NOSIGNAL = 6, 1, 1, 0x4000
local BUFFER = 4096

local port, connections, seconds = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])

local function fail(attempt, cause, remedy)
  io.stderr:write(string.format("cannot %s: %s; %s\n", attempt, cause, remedy))
  os.exit(1)
end

local function reason()
  return ffi.string(ffi.C.strerror(ffi.errno()))
end

local clock = ffi.new("timespec_t")
local function now_us()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, clock)
  return tonumber(clock.sec) * 1e6 + tonumber(clock.nsec) / 1e3
end

local function connect()
  local fd = ffi.C.socket(AF_INET, SOCK_STREAM, 0)
  local swapped = bit.bor(bit.lshift(bit.band(port, 255), 8), bit.rshift(port, 8))
  local loopback = ffi.new("uint8_t[4]", { 127, 0, 0, 1 })
  local address = ffi.new("address_t", { AF_INET, swapped })
  ffi.copy(ffi.cast("char *", address) + 4, loopback, 4)
  if fd < 0 or ffi.C.connect(fd, address, ffi.sizeof(address)) ~= 0 then
    fail("connect to memcached on port " .. port, reason(),
      "see whether it runs and takes so many connections")
  end
  ffi.C.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, ffi.new("int[1]", 1), 4)
  return fd
end

-- Each key has the same length, so each kind of answer has, and its end is known without a search.
local function key(number)
  return string.format("key-%08d", number)
end
local STORED = "STORED\r\n"
local FOUND = #("VALUE " .. key(0) .. " 0 " .. #VALUE .. "\r\n" .. VALUE .. "\r\nEND\r\n")

local fds = ffi.new("pollfd_t[?]", connections)
-- Of each connection: when its request was sent, the length of its answer and what came of it.
local sent = ffi.new("double[?]", connections)
local awaited = ffi.new("int[?]", connections)
local come = ffi.new("int[?]", connections)
local starts = ffi.new("char[?]", connections)

local function ask(i, request, length)
  sent[i], awaited[i], come[i] = now_us(), length, 0
  -- The socket blocks until it has taken all.
  if ffi.C.send(fds[i].fd, request, #request, MSG_NOSIGNAL) ~= #request then
    fail("ask memcached", reason(), "see whether it still runs")
  end
end

local function set(i, number)
  ask(i, "set " .. key(number) .. " 0 0 " .. #VALUE .. "\r\n" .. VALUE .. "\r\n", #STORED)
end

local function get(i, number)
  ask(i, "get " .. key(number) .. "\r\n", FOUND)
end

local buffer = ffi.new("char[?]", BUFFER)

-- Reads what came for a connection; true if its answer is whole.
local function answered(i)
  local got = tonumber(ffi.C.recv(fds[i].fd, buffer, BUFFER, 0))
  if got <= 0 then
    fail("read an answer of memcached", got == 0 and "it closed the connection" or reason(),
      "see whether it still runs")
  end
  if come[i] == 0 then
    starts[i] = buffer[0]
  end
  come[i] = come[i] + got
  -- A key that is not found is answered with a short END, any mistake with ERROR.
  local right = string.byte(awaited[i] == FOUND and "V" or "S")
  if starts[i] ~= right or come[i] > awaited[i] then
    local answer = ffi.string(buffer, math.min(got, 40)):gsub("%s+", " ")
    fail("load memcached", "it answers '" .. answer .. "'",
      "see whether another server listens on its port")
  end
  return come[i] == awaited[i]
end

-- Calls `next_request(i)` for each connection at first, and whenever it was answered, which
-- `finished(i)` is told; until `over()`, then waits for the answers that are still to come.
local function drive(next_request, finished, over)
  local waiting = connections
  for i = 0, connections - 1 do
    next_request(i)
  end
  while waiting > 0 do
    if ffi.C.poll(fds, connections, TIMEOUT_MS) <= 0 then
      fail("load memcached", "nothing was answered for " .. TIMEOUT_MS / 1000 .. " s",
        "see whether it hangs")
    end
    for i = 0, connections - 1 do
      if fds[i].revents ~= 0 and answered(i) then
        finished(i)
        if over() then
          waiting = waiting - 1
        else
          next_request(i)
        end
      end
    end
  end
end

for i = 0, connections - 1 do
  fds[i].fd, fds[i].events = connect(), POLLIN
end

-- All keys get a value first, uncounted; only the last is answered, so this is soon done.
local function fill(number)
  local last = number == KEYS - 1
  local request = "set " .. key(number) .. " 0 0 " .. #VALUE .. (last and "" or " noreply")
    .. "\r\n" .. VALUE .. "\r\n"
  ask(0, request, #STORED)
end
for number = 0, KEYS - 1 do
  fill(number)
end
repeat until answered(0)

local counts, requests = {}, 0
math.randomseed(1)
local begin = now_us()
local stop = begin + seconds * 1e6
local turn = 0
drive(function(i)
  turn = turn + 1
  local choose = turn % (GETS_PER_SET + 1) == 0 and set or get
  choose(i, math.random(0, KEYS - 1))
end, function(i)
  local took = math.floor(now_us() - sent[i] + 0.5)
  counts[took] = (counts[took] or 0) + 1
  requests = requests + 1
end, function()
  return now_us() >= stop
end)
local duration_s = (now_us() - begin) / 1e6

local values = {}
for value in pairs(counts) do
  values[#values + 1] = value
end
table.sort(values)
local pairs_ = {}
for _, value in ipairs(values) do
  pairs_[#pairs_ + 1] = string.format("[%d,%d]", value, counts[value])
end
print(string.format(
  'METASCHED {"throughput_per_s":%.3f,"requests":%d,"errors":0,"duration_s":%.6f,"histogram":[%s]}',
  requests / duration_s, requests, duration_s, table.concat(pairs_, ",")))
