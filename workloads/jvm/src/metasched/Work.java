// SPDX-License-Identifier: GPL-2.0-only
package metasched;

/** What a workload does, one unit after the other, in each of its workers. */
interface Work {
    /** How many threads do units at the same time. */
    int workers();

    /** Does one unit; a worker is a number from 0 on. What it throws counts as an error. */
    void unit(int worker) throws Exception;
}
