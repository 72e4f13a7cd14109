package lakepruner.trino;

import java.util.Optional;

/** The file of a split, as the wrapped connector knows it. */
record SplitFile(String path, long size, long modifiedMillis) {
    /** The file of a Hive or Hudi split; empty for anything else, and where rows come from more than this file (ACID). */
    static Optional<SplitFile> of(Object split) {
        if (Reflection.has(split, "getPath") && Reflection.find(split, "getAcidInfo").isEmpty()) {
            return Optional.of(new SplitFile(
                    (String) Reflection.get(split, "getPath"),
                    (long) Reflection.get(split, "getEstimatedFileSize"),
                    (long) Reflection.get(split, "getFileModifiedTime")));
        }
        if (Reflection.has(split, "location") && Reflection.has(split, "fileModifiedTime")) {
            return Optional.of(new SplitFile(
                    (String) Reflection.get(split, "location"),
                    (long) Reflection.get(split, "fileSize"),
                    (long) Reflection.get(split, "fileModifiedTime")));
        }
        return Optional.empty();
    }

    /** One form for the ways in which a place is written, the one that keys are made of (docs/service.md). */
    String normalPath() {
        if (path.startsWith("local:/") || path.startsWith("file:/") || path.startsWith("/")) {
            return path.replaceFirst("^(local:|file:)?/+", "/").replaceAll("/{2,}", "/");
        }
        return path.replaceFirst("^s3[an]://", "s3://");
    }
}
