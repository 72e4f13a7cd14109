package lakepruner.trino.files;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** Keys of the snapshots that were planned on lately; 20 bytes a slice. */
public final class KeyCache {
    public static final int SLICES = 8_000_000;

    private final Map<String, SnapshotKeys> snapshots = new LinkedHashMap<>(16, 0.75f, true);
    private long slices;

    public synchronized boolean has(String snapshotId) {
        return snapshots.containsKey(snapshotId);
    }

    public synchronized Optional<SnapshotKeys> get(String snapshotId) {
        return Optional.ofNullable(snapshots.get(snapshotId));
    }

    public synchronized void put(SnapshotKeys keys) {
        SnapshotKeys before = snapshots.put(keys.snapshotId(), keys);
        slices += keys.count() - (before == null ? 0 : before.count());
        var oldest = snapshots.entrySet().iterator();
        while (slices > SLICES && snapshots.size() > 1) {
            slices -= oldest.next().getValue().count();
            oldest.remove();
        }
    }
}
