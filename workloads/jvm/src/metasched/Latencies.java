// SPDX-License-Identifier: GPL-2.0-only
package metasched;

/** Counts of latencies in microseconds: exact below 128, then 64 steps for each doubling. */
final class Latencies {
    private static final int STEPS = 64;
    /** Enough for what a long holds. */
    private final long[] counts = new long[STEPS * 60];
    private long count;
    private double sumUs;
    private long maxUs;

    void record(long us) {
        counts[bucket(us)]++;
        count++;
        sumUs += us;
        maxUs = Math.max(maxUs, us);
    }

    void add(Latencies other) {
        for (int i = 0; i < counts.length; i++) {
            counts[i] += other.counts[i];
        }
        count += other.count;
        sumUs += other.sumUs;
        maxUs = Math.max(maxUs, other.maxUs);
    }

    long count() {
        return count;
    }

    /** The fields of the figures that tell latencies, as JSON. */
    String json() {
        StringBuilder pairs = new StringBuilder();
        for (int i = 0; i < counts.length; i++) {
            if (counts[i] > 0) {
                pairs.append(pairs.length() > 0 ? "," : "");
                pairs.append('[').append(middle(i)).append(',').append(counts[i]).append(']');
            }
        }
        return String.format(
                "\"mean_us\":%.1f,\"p50_us\":%d,\"p95_us\":%d,\"p99_us\":%d,\"p999_us\":%d,\"max_us\":%d,"
                        + "\"histogram\":[%s]",
                sumUs / count, percentile(0.5), percentile(0.95), percentile(0.99), percentile(0.999),
                maxUs, pairs);
    }

    private long percentile(double fraction) {
        long rank = Math.max(1, (long) Math.ceil(fraction * count));
        long seen = 0;
        for (int i = 0; i < counts.length; i++) {
            seen += counts[i];
            if (seen >= rank) {
                return Math.min(middle(i), maxUs);
            }
        }
        return maxUs;
    }

    /** The place of a latency: its highest bits, of which 64 to 127 are possible, and the doublings. */
    private static int bucket(long us) {
        long value = Math.max(0, us);
        int doublings = Math.max(0, 58 - Long.numberOfLeadingZeros(value | 1) - 1);
        return (int) (value >> doublings) + STEPS * doublings;
    }

    /** The middle of what falls into a bucket. */
    private static long middle(int bucket) {
        int doublings = Math.max(0, bucket / STEPS - 1);
        long low = (long) (bucket - STEPS * doublings) << doublings;
        return low + ((1L << doublings) >> 1);
    }
}
