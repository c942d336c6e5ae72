// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/**
 * The ranks of a generated graph's pages. A unit is one iteration, in two steps of parallel streams
 * as clusters do it: each part of the graph makes shares for every part, then each part adds up
 * those that it got.
 */
final class PageRank implements Work {
    private static final int PARTS = 8;
    private static final int LINKS = 8;
    private static final double DAMPING = 0.85;

    private final int pages = Setting.whole("pages", PARTS, 10_000_000) / PARTS * PARTS;
    private final int perPart = pages / PARTS;
    private final int[][] links = new int[pages][];
    private double[] ranks = new double[pages];

    PageRank() {
        SplittableRandom random = new SplittableRandom(1);
        for (int page = 0; page < pages; page++) {
            links[page] = new int[1 + random.nextInt(2 * LINKS - 1)];
            for (int i = 0; i < links[page].length; i++) {
                // Some pages are named far more often than others.
                double u = random.nextDouble();
                links[page][i] = (int) (pages * u * u * u);
            }
        }
        Arrays.fill(ranks, 1.0 / pages);
    }

    /** The threads are those of the streams. */
    @Override
    public int workers() {
        return 1;
    }

    @Override
    public void unit(int worker) {
        double[][][] shares = IntStream.range(0, PARTS).parallel().mapToObj(this::shares)
                .toArray(double[][][]::new);
        double[] next = new double[pages];
        double sum = IntStream.range(0, PARTS).parallel()
                .mapToDouble(part -> collect(part, shares, next)).sum();
        if (Math.abs(sum - 1) > 1e-6) {
            throw new IllegalStateException("the ranks add up to " + sum);
        }
        ranks = next;
    }

    /** What the pages of a part give to those of each part. */
    private double[][] shares(int from) {
        double[][] shares = new double[PARTS][perPart];
        for (int page = from * perPart; page < (from + 1) * perPart; page++) {
            double share = ranks[page] / links[page].length;
            for (int link : links[page]) {
                shares[link / perPart][link % perPart] += share;
            }
        }
        return shares;
    }

    /** Adds up what a part got; gives the sum of its ranks. */
    private double collect(int part, double[][][] shares, double[] next) {
        double all = 0;
        for (int i = 0; i < perPart; i++) {
            double sum = 0;
            for (double[][] from : shares) {
                sum += from[part][i];
            }
            double rank = (1 - DAMPING) / pages + DAMPING * sum;
            next[part * perPart + i] = rank;
            all += rank;
        }
        return all;
    }
}
