import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;

/**
 * Writes tests/fixtures/writers/parquet-mr by parquet-mr before 1.11, which knows converted types alone.
 * tests/support/parquet/old_files.py compiles and runs it. Row n of a table holds number n; every fourth row is NULL.
 */
public final class OldFiles {
    private static final int FILES = 3;
    private static final int ROWS = 4;
    /** 2024-03-09 22:00 UTC, in seconds. */
    private static final long FIRST = 1_710_021_600L;

    private static final Map<String, String> COLUMNS = Map.ofEntries(
        Map.entry("millis", "int64 x (TIMESTAMP_MILLIS)"),
        Map.entry("micros", "int64 x (TIMESTAMP_MICROS)"),
        Map.entry("int96", "int96 x"),
        Map.entry("days", "int32 x (DATE)"),
        Map.entry("times_ms", "int32 x (TIME_MILLIS)"),
        Map.entry("times_us", "int64 x (TIME_MICROS)"),
        Map.entry("decimals", "int32 x (DECIMAL(9,2))"),
        Map.entry("fixed_decimals", "fixed_len_byte_array(9) x (DECIMAL(20,2))"),
        Map.entry("texts", "binary x (UTF8)"),
        Map.entry("enums", "binary x (ENUM)"),
        Map.entry("json", "binary x (JSON)"),
        Map.entry("bytes", "binary x"),
        Map.entry("small", "int32 x (INT_8)"),
        Map.entry("unsigned", "int32 x (UINT_8)"),
        Map.entry("doubles", "double x"));

    public static void main(String[] arguments) throws Exception {
        for (Map.Entry<String, String> column : COLUMNS.entrySet()) {
            MessageType type = MessageTypeParser.parseMessageType("message t { optional " + column.getValue() + "; }");
            for (int file = 0; file < FILES; file++) {
                Path path = new Path(arguments[0] + "/" + column.getKey() + "/" + file + ".parquet");
                try (ParquetWriter<Group> writer = ExampleParquetWriter.builder(path).withType(type).build()) {
                    for (int row = 0; row < ROWS; row++) {
                        Group group = new SimpleGroup(type);
                        if (row < ROWS - 1) {
                            add(group, column.getKey(), file * ROWS + row);
                        }
                        writer.write(group);
                    }
                }
            }
        }
    }

    private static void add(Group group, String column, int n) {
        switch (column) {
            case "millis" -> group.add("x", (FIRST + n * 3600L) * 1000 + n);
            case "micros" -> group.add("x", (FIRST + n * 3600L) * 1_000_000 + n);
            case "int96" -> group.add("x", int96(FIRST + n * 3600L, n * 1000L));
            case "days" -> group.add("x", 19_800 + n);
            case "times_ms" -> group.add("x", n * 3_600_000 + n);
            case "times_us" -> group.add("x", n * 3_600_000_000L + n);
            case "decimals" -> group.add("x", n * 50);
            case "fixed_decimals" -> group.add("x", Binary.fromConstantByteArray(nine(n * 50L - 100)));
            case "texts", "enums" -> group.add("x", Binary.fromString(String.format("é%02d", n)));
            case "json" -> group.add("x", Binary.fromString(String.format("{\"n\":\"%02d\"}", n)));
            case "bytes" -> group.add("x", Binary.fromConstantByteArray(new byte[] {(byte) n, (byte) (0x80 + n)}));
            case "small" -> group.add("x", n * 10);
            case "unsigned" -> group.add("x", n * 20);
            case "doubles" -> group.add("x", n == 5 ? Double.NaN : n / 8.0);
            default -> throw new IllegalArgumentException(column);
        }
    }

    private static Binary int96(long seconds, long nanoseconds) {
        ByteBuffer bytes = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putLong(Math.floorMod(seconds, 86_400L) * 1_000_000_000L + nanoseconds);
        bytes.putInt((int) (Math.floorDiv(seconds, 86_400L) + 2_440_588));
        return Binary.fromConstantByteArray(bytes.array());
    }

    private static byte[] nine(long unscaled) {
        byte[] short_ = BigInteger.valueOf(unscaled).toByteArray();
        byte[] whole = new byte[9];
        java.util.Arrays.fill(whole, (byte) (unscaled < 0 ? -1 : 0));
        System.arraycopy(short_, 0, whole, 9 - short_.length, short_.length);
        return whole;
    }
}
