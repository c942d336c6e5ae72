// SPDX-License-Identifier: GPL-2.0-only
package metasched;

/** Serves the work that the argument names. */
final class Mix {
    private Mix() {}

    public static void main(String[] args) {
        Server.serve(() -> {
            switch (args[0]) {
                case "reactors":
                    return new Reactors();
                case "page-rank":
                    return new PageRank();
                default:
                    throw Server.fail("start '" + args[0] + "'", "there is no such work",
                            "name reactors or page-rank");
            }
        });
    }
}
