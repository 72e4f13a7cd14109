package lakepruner.trino;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The file of a split, as the wrapped connector knows it.
 *
 * @param partition what the metastore says of the partition columns
 * @param isCut whether its partition declares a text of another length than the table: it is cut or padded to that first
 */
record SplitFile(String path, long size, long modifiedMillis, Map<String, String> partition, boolean isCut) {
    /** The file of a Hive or Hudi split; empty for anything else, and where rows come from more than this file (ACID). */
    static Optional<SplitFile> of(Object split) {
        if (Reflection.has(split, "getPath") && Reflection.find(split, "getAcidInfo").isEmpty()) {
            return Optional.of(new SplitFile(
                    (String) Reflection.get(split, "getPath"),
                    (long) Reflection.get(split, "getEstimatedFileSize"),
                    (long) Reflection.get(split, "getFileModifiedTime"),
                    partition((List<?>) Reflection.get(split, "getPartitionKeys")),
                    isCut(((Map<?, ?>) Reflection.get(split, "getHiveColumnCoercions")).values())));
        }
        if (Reflection.has(split, "location") && Reflection.has(split, "fileModifiedTime")) {
            return Optional.of(new SplitFile(
                    (String) Reflection.get(split, "location"),
                    (long) Reflection.get(split, "fileSize"),
                    (long) Reflection.get(split, "fileModifiedTime"),
                    partition((List<?>) Reflection.get(split, "partitionKeys")),
                    false));
        }
        return Optional.empty();
    }

    private static Map<String, String> partition(List<?> keys) {
        Map<String, String> found = new HashMap<>();
        keys.forEach(key -> found.put((String) Reflection.get(key, "name"), (String) Reflection.get(key, "value")));
        return found;
    }

    private static boolean isCut(Collection<?> partitionTypes) {
        return partitionTypes.stream().map(Object::toString).anyMatch(type -> type.contains("char"));
    }

    /** One form for the ways in which a place is written, the one that keys are made of (docs/service.md). */
    String normalPath() {
        if (path.startsWith("local:/") || path.startsWith("file:/") || path.startsWith("/")) {
            return path.replaceFirst("^(local:|file:)?/+", "/").replaceAll("/{2,}", "/");
        }
        return path.replaceFirst("^s3[an]://", "s3://");
    }
}
