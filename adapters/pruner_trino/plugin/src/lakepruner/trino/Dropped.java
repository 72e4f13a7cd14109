package lakepruner.trino;

import java.util.BitSet;

/**
 * The files that a scan may leave out, by their keys.
 *
 * @param askedMillis when the service was asked; a file that was modified since, or just before, is never left out
 */
record Dropped(SnapshotKeys keys, BitSet ordinals, long askedMillis) {
    /** Files younger than this when the service was asked are read: stores round times down to the second. */
    static final long YOUNG_MILLIS = 2_000;

    static final Dropped NOTHING = new Dropped(SnapshotKeys.EMPTY, new BitSet(), 0);

    boolean contains(SplitFile file) {
        return !ordinals.isEmpty()
                && file.modifiedMillis() < askedMillis - YOUNG_MILLIS
                && keys.allIn(ordinals, file);
    }
}
