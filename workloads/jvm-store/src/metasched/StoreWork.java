// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;

/** Transactions on embedded stores: some rows are read or written, then the store commits. */
final class StoreWork implements Work {
    private final String[] kinds;
    private final Path folder;
    private final int workers = Setting.threads("threads");
    private final int rows = Setting.whole("rows", 100, 10_000_000);
    private final int rowBytes = Setting.whole("row_bytes", 8, 1 << 20);
    private final int operations = Setting.whole("operations", 1, 100_000);
    private final int writes = Setting.whole("writes", 0, 100);
    private Store[] stores = {};
    private Worker[] state;

    /** What a worker alone changes. */
    private static final class Worker {
        final SplittableRandom random;
        int turn;

        Worker(int seed) {
            random = new SplittableRandom(seed);
            turn = seed;
        }
    }

    /** Serves; the arguments are the folder for the files and the stores to use. */
    public static void main(String[] args) {
        String[] kinds = Arrays.copyOfRange(args, 1, args.length);
        Server.serve(() -> new StoreWork(Path.of(args[0]), kinds));
    }

    private StoreWork(Path folder, String[] kinds) throws IOException {
        this.folder = folder;
        this.kinds = kinds;
        fill();
    }

    @Override
    public int workers() {
        return workers;
    }

    /** New stores with all rows in them. */
    private void fill() throws IOException {
        Files.createDirectories(folder);
        stores = new Store[kinds.length];
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < kinds.length; i++) {
            stores[i] = Store.open(kinds[i], folder.toFile());
            for (int key = 0; key < rows; key++) {
                byte[] row = new byte[rowBytes];
                random.nextBytes(row);
                stores[i].put(key, row);
            }
            stores[i].commit();
        }
        state = new Worker[workers];
        for (int i = 0; i < workers; i++) {
            state[i] = new Worker(i);
        }
    }

    @Override
    public void unit(int worker) {
        Worker own = state[worker];
        int turn = own.turn++ % stores.length;
        Store store = stores[turn];
        boolean wrote = false;
        for (int i = 0; i < operations; i++) {
            long key = own.random.nextInt(rows);
            if (own.random.nextInt(100) < writes) {
                // A new array each time: the stores keep what they are given.
                byte[] row = new byte[rowBytes];
                own.random.nextBytes(row);
                store.put(key, row);
                wrote = true;
            } else if (store.get(key) == null) {
                throw new IllegalStateException("the row " + key + " of " + kinds[turn] + " is gone");
            }
        }
        if (wrote) {
            store.commit();
        }
    }
}
