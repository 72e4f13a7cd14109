package lakepruner.trino;

import java.util.HexFormat;
import java.util.Map;
import java.util.Scanner;
import lakepruner.trino.files.SnapshotKeys;
import lakepruner.trino.files.SplitFile;

/** Prints the key of each file that a line names as size, blank, path. */
public final class KeysOf {
    private KeysOf() {}

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, "UTF-8");
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ", 2);
            byte[] digest = SnapshotKeys.key(new SplitFile(parts[1], Long.parseLong(parts[0]), 0, Map.of(), false));
            System.out.println(HexFormat.of().formatHex(digest, 0, SnapshotKeys.BYTES));
        }
    }
}
