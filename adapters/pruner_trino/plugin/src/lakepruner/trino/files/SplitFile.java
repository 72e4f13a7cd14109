package lakepruner.trino.files;

import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import lakepruner.trino.reflection.Reflection;

/**
 * The file of a split, as the wrapped connector knows it.
 *
 * @param partition what the metastore says of the partition columns
 * @param modifiedMillis when it was written; 0 where it never changes
 * @param isChanged whether its partition declares a type that may change values before the table's type is applied: text
 *     is cut or padded to another length, decimals and timestamps are rounded to fewer digits
 */
public record SplitFile(String path, long size, long modifiedMillis, Map<String, String> partition, boolean isChanged) {
    /** Types that show what files hold as it is, and of what they are made up; what others make of it is not known. */
    private static final Set<String> PLAIN_TYPES = Set.of(
            "tinyint", "smallint", "int", "bigint", "float", "boolean", "string", "binary", "date", "struct", "array", "map", "");

    /** The file of a Hive, Hudi or Iceberg split; empty for anything else, and where rows come from more than this file (ACID). */
    public static Optional<SplitFile> of(Object split) {
        if (Reflection.has(split, "getPath") && Reflection.find(split, "getAcidInfo").isEmpty()) {
            return Optional.of(new SplitFile(
                    (String) Reflection.get(split, "getPath"),
                    (long) Reflection.get(split, "getEstimatedFileSize"),
                    (long) Reflection.get(split, "getFileModifiedTime"),
                    partition((List<?>) Reflection.get(split, "getPartitionKeys")),
                    isChanged(((Map<?, ?>) Reflection.get(split, "getHiveColumnCoercions")).values())));
        }
        if (Reflection.has(split, "location") && Reflection.has(split, "fileModifiedTime")) {
            return Optional.of(new SplitFile(
                    (String) Reflection.get(split, "location"),
                    (long) Reflection.get(split, "fileSize"),
                    (long) Reflection.get(split, "fileModifiedTime"),
                    partition((List<?>) Reflection.get(split, "partitionKeys")),
                    false));
        }
        if (Reflection.has(split, "path") && Reflection.has(split, "deletes")) {
            return Optional.of(new SplitFile(
                    (String) Reflection.get(split, "path"), (long) Reflection.get(split, "fileSize"), 0, Map.of(), false));
        }
        return Optional.empty();
    }

    private static Map<String, String> partition(List<?> keys) {
        Map<String, String> found = new HashMap<>();
        keys.forEach(key -> found.put((String) Reflection.get(key, "name"), (String) Reflection.get(key, "value")));
        return found;
    }

    private static boolean isChanged(Collection<?> partitionTypes) {
        return partitionTypes.stream().anyMatch(type -> !isPlain(type.toString()));
    }

    /** Of {@code struct<a:int,b:array<string>>} each part is looked at, without the name of its field. */
    private static boolean isPlain(String type) {
        return Arrays.stream(type.split("[<>,]")).allMatch(part -> PLAIN_TYPES.contains(part.substring(part.lastIndexOf(':') + 1)));
    }

    /** One form for the ways in which a place is written, the one that keys are made of (docs/http.md). */
    String normalPath() {
        if (path.startsWith("local:/") || path.startsWith("file:/") || path.startsWith("/")) {
            return path.replaceFirst("^(local:|file:)?/+", "/").replaceAll("/{2,}", "/");
        }
        return path.replaceFirst("^s3[an]://", "s3://");
    }
}
