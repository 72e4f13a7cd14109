package lakepruner.trino;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.Set;

/**
 * Which plugins a folder offers.
 *
 * <p>A folder may hold a connector's jar only because another connector is built on it (Hudi's has Hive's); a connector
 * that is offered there is named among the services, and nothing else is wrapped: names would be taken twice.
 */
final class Services {
    private static final String FILE = "META-INF/services/io.trino.spi.Plugin";

    private Services() {}

    static Set<String> plugins(ClassLoader folder) {
        Set<String> names = new LinkedHashSet<>();
        try {
            for (URL file : Collections.list(folder.getResources(FILE))) {
                try (BufferedReader lines =
                        new BufferedReader(new InputStreamReader(file.openStream(), StandardCharsets.UTF_8))) {
                    lines.lines().map(line -> line.replaceFirst("#.*", "").strip()).forEach(names::add);
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException("the plugin folder cannot be read", error);
        }
        return names;
    }
}
