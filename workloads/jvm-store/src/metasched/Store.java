// SPDX-License-Identifier: GPL-2.0-only
package metasched;

import java.io.File;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;
import org.mapdb.BTreeMap;
import org.mapdb.DB;
import org.mapdb.DBMaker;
import org.mapdb.Serializer;

/** A map of rows in a file. All of it may be called by several threads. */
interface Store {
    byte[] get(long key);

    void put(long key, byte[] row);

    /** Makes what was put before last. */
    void commit();

    /** Opens a new store of a kind in a folder. */
    static Store open(String kind, File folder) {
        switch (kind) {
            case "mvstore":
                return mvstore(new File(folder, "mvstore"));
            case "mapdb":
                return mapdb(new File(folder, "mapdb"));
            default:
                throw Server.fail("open a store", "there is no '" + kind + "'", "name mvstore or mapdb");
        }
    }

    /** H2's: copies of changed pages are appended at each commit. */
    private static Store mvstore(File file) {
        MVStore store = new MVStore.Builder().fileName(file.getPath()).autoCommitDisabled().open();
        // Pages of before are free after a second, not after 45: they lie in memory. Without any
        // delay they may be overwritten under a thread that still reads them.
        store.setRetentionTime(1000);
        MVMap<Long, byte[]> map = store.openMap("rows");
        return new Store() {
            public byte[] get(long key) {
                return map.get(key);
            }

            public void put(long key, byte[] row) {
                map.put(key, row);
            }

            public void commit() {
                store.commit();
            }
        };
    }

    /** A tree of nodes with a lock each; a commit goes to a log. */
    private static Store mapdb(File file) {
        DB db = DBMaker.fileDB(file).fileChannelEnable().transactionEnable().make();
        BTreeMap<Long, byte[]> map =
                db.treeMap("rows", Serializer.LONG, Serializer.BYTE_ARRAY).valuesOutsideNodesEnable()
                        .create();
        return new Store() {
            public byte[] get(long key) {
                return map.get(key);
            }

            public void put(long key, byte[] row) {
                map.put(key, row);
            }

            public void commit() {
                db.commit();
            }
        };
    }
}
