// SPDX-License-Identifier: GPL-2.0-only
package metasched;

/** The parameters of the workload, which come as METASCHED_PARAM_NAME. */
final class Setting {
    private Setting() {}

    static String text(String name) {
        String value = System.getenv("METASCHED_PARAM_" + name.toUpperCase());
        if (value == null) {
            throw Server.fail("read the parameter " + name, "it is not set", "start it through metasched");
        }
        return value;
    }

    static int whole(String name, int least, int most) {
        String text = text(name);
        try {
            int value = Integer.parseInt(text);
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException e) {
            // Told below.
        }
        throw Server.fail("read the parameter " + name, "'" + text + "' is not a number from " + least
                + " to " + most, "give one with --set " + name + "=NUMBER");
    }

    /** Threads of a load: a number, or 'cpus' for one on each, or 'twice' for two. */
    static int threads(String name) {
        int cpus = Runtime.getRuntime().availableProcessors();
        switch (text(name)) {
            case "cpus":
                return cpus;
            case "twice":
                return 2 * cpus;
            default:
                return whole(name, 1, 4096);
        }
    }
}
