-- SPDX-License-Identifier: GPL-2.0-only
-- wrk's figures, printed for the tool. A script of a workload may `dofile` this one and set
-- up requests of its own. WRK_CONNECTIONS holds the number of connections.

-- The counts of latencies, as { [microseconds] = count }, and the sorted latencies.
local function recorded(latency)
  local counts, values = {}, {}
  for i = 1, #latency do
    local value, count = latency(i)
    values[i] = value
    counts[value] = count
  end
  return counts, values
end

local function total(counts)
  local sum = 0
  for _, count in pairs(counts) do
    sum = sum + count
  end
  return sum
end

-- wrk 4.1 adds responses that it never saw: for each latency of twice the mean interval
-- of a connection or more, one at each multiple of the interval below. They would tell
-- what an open load had met, but they are guesses, and those counted here are not. From
-- the longest down, each latency's count is known, so its guesses can be taken back.
local function take_guesses_back(counts, values, interval)
  for i = #values, 1, -1 do
    local count = counts[values[i]]
    local guessed = values[i] - interval
    while count > 0 and guessed > interval do
      counts[guessed] = counts[guessed] - count
      guessed = guessed - interval
    end
  end
end

local function percentile(counts, values, all, fraction)
  local rank, seen = math.max(1, math.ceil(fraction * all)), 0
  for _, value in ipairs(values) do
    seen = seen + counts[value]
    if seen >= rank then
      return value
    end
  end
end

function done(summary, latency)
  local errors = summary.errors
  local finished = summary.requests - errors.timeout
  local counts, values = recorded(latency)
  local per_connection = math.floor(summary.requests / tonumber(os.getenv("WRK_CONNECTIONS")))
  if total(counts) ~= finished and per_connection > 0 then
    take_guesses_back(counts, values, math.floor(summary.duration / per_connection))
  end
  if total(counts) ~= finished then
    io.stderr:write(string.format(
      "cannot read wrk's latencies: it recorded %d for %d responses; use wrk 4.1 or later\n",
      total(counts), finished))
    os.exit(1)
  end

  local pairs_, sum, max = {}, 0, 0
  for _, value in ipairs(values) do
    if counts[value] > 0 then
      pairs_[#pairs_ + 1] = string.format("[%d,%d]", value, counts[value])
      sum, max = sum + value * counts[value], value
    end
  end
  local good = finished - errors.status
  local bad = errors.connect + errors.read + errors.write + errors.timeout + errors.status
  local seconds = summary.duration / 1e6
  local fields = {
    string.format('"throughput_per_s":%.3f', good / seconds),
    string.format('"requests":%d,"errors":%d,"duration_s":%.6f', good, bad, seconds),
  }
  if finished > 0 then
    fields[#fields + 1] = string.format('"mean_us":%.1f,"max_us":%d', sum / finished, max)
    for name, fraction in pairs({ p50 = 0.5, p95 = 0.95, p99 = 0.99, p999 = 0.999 }) do
      fields[#fields + 1] =
        string.format('"%s_us":%d', name, percentile(counts, values, finished, fraction))
    end
  end
  fields[#fields + 1] = '"histogram":[' .. table.concat(pairs_, ",") .. "]"
  print("METASCHED {" .. table.concat(fields, ",") .. "}")
end
