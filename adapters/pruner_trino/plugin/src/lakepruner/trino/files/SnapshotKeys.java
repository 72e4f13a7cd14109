package lakepruner.trino.files;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.BitSet;
import java.util.stream.IntStream;

/** Which file each ordinal of a snapshot stands for: 16 bytes each, sorted, so that a split is found in a few steps. */
public final class SnapshotKeys {
    public static final int BYTES = 16;
    static final SnapshotKeys EMPTY = new SnapshotKeys("", new byte[0]);

    private final String snapshotId;
    private final long[] heads;
    private final long[] tails;
    private final int[] ordinals;

    public SnapshotKeys(String snapshotId, byte[] keys) {
        this.snapshotId = snapshotId;
        ByteBuffer buffer = ByteBuffer.wrap(keys);
        int count = keys.length / BYTES;
        ordinals = IntStream.range(0, count)
                .boxed()
                .sorted((a, b) -> Long.compare(buffer.getLong(a * BYTES), buffer.getLong(b * BYTES)))
                .mapToInt(Integer::intValue)
                .toArray();
        heads = IntStream.of(ordinals).mapToLong(n -> buffer.getLong(n * BYTES)).toArray();
        tails = IntStream.of(ordinals).mapToLong(n -> buffer.getLong(n * BYTES + 8)).toArray();
    }

    String snapshotId() {
        return snapshotId;
    }

    public int count() {
        return ordinals.length;
    }

    /** Whether the snapshot knows the file, and every slice that has it is in the set. */
    boolean allIn(BitSet set, SplitFile file) {
        ByteBuffer key = ByteBuffer.wrap(key(file));
        long head = key.getLong();
        long tail = key.getLong();
        if (head == 0 && tail == 0) {
            return false;
        }
        boolean found = false;
        for (int at = firstAtLeast(head); at < heads.length && heads[at] == head; at++) {
            if (tails[at] == tail) {
                if (!set.get(ordinals[at])) {
                    return false;
                }
                found = true;
            }
        }
        return found;
    }

    private int firstAtLeast(long head) {
        int low = 0;
        int high = heads.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (heads[middle] < head) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /** The digest whose first 16 bytes are a file's key (docs/http.md). */
    public static byte[] key(SplitFile file) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            return digest.digest((file.normalPath() + "\0" + file.size()).getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
