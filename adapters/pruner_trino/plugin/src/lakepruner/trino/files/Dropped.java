package lakepruner.trino.files;

import java.util.BitSet;
import java.util.Set;

/**
 * The files that a scan may leave out, by their keys.
 *
 * @param lookedMillis when the service looked at the table, or before; a file that was modified since, or just before, is never left out
 * @param placement where the plan takes values from; a file for which they are somewhere else is never left out
 */
public record Dropped(SnapshotKeys keys, BitSet ordinals, long lookedMillis, Placement placement) {
    /** Files younger than this when the table was looked at are read: stores round times down to the second. */
    static final long YOUNG_MILLIS = 2_000;

    public static final Dropped NOTHING = new Dropped(SnapshotKeys.EMPTY, new BitSet(), 0, Placement.NONE);

    public boolean contains(SplitFile file) {
        return !ordinals.isEmpty()
                && file.modifiedMillis() < lookedMillis - YOUNG_MILLIS
                && !file.isChanged()
                && displaced(file).isEmpty()
                && keys.allIn(ordinals, file);
    }

    /** Columns of the plan whose values are somewhere else for this file. */
    public Set<String> displaced(SplitFile file) {
        return placement.displaced(file);
    }
}
