package lakepruner.trino.client;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a catalog file says with {@code pruner.…} (docs/trino.md lists the properties).
 *
 * @param url where the service listens
 * @param token sent as bearer; from a file or the environment, never from the catalog file
 * @param timeout for everything that a scan waits for from the service
 * @param pause how long no scan asks after one that waited in vain
 * @param dynamicFilterWait how long a scan waits for dynamic filters before its splits are listed
 * @param answerMinFiles data files of an Iceberg snapshot from which on aggregates and first rows are asked about
 * @param enabled default of the session property
 * @param catalog first part of the names that tables have in the service's configuration
 */
public record Settings(
        URI url,
        Optional<String> token,
        Duration timeout,
        Duration pause,
        Duration dynamicFilterWait,
        int answerMinFiles,
        boolean enabled,
        String catalog) {
    public static final String PREFIX = "pruner.";
    static final String TOKEN_VARIABLE = "PRUNER_SERVICE_TOKEN";

    private static final Set<String> KEYS = Set.of(
            "pruner.url",
            "pruner.token-file",
            "pruner.timeout",
            "pruner.pause",
            "pruner.dynamic-filter-wait",
            "pruner.answer-min-files",
            "pruner.enabled",
            "pruner.catalog");
    private static final Pattern TOKEN = Pattern.compile("[\\x21-\\x7e]+");
    private static final Pattern NUMBER = Pattern.compile("\\d{1,9}");
    private static final Pattern DURATION = Pattern.compile("(\\d{1,9})\\s*(ms|s|m)");

    public static Settings of(Map<String, String> properties, String catalogName) {
        Set<String> unknown = new TreeSet<>(properties.keySet());
        unknown.removeAll(KEYS);
        if (!unknown.isEmpty()) {
            throw new IllegalArgumentException("unknown properties " + unknown + "; known are " + new TreeSet<>(KEYS));
        }
        Duration timeout = duration(properties, "pruner.timeout", "2s");
        if (timeout.isZero()) {
            throw new IllegalArgumentException("pruner.timeout must be above 0: pruner.enabled=false switches pruning off");
        }
        return new Settings(
                url(properties.get("pruner.url")),
                token(properties.get("pruner.token-file")),
                timeout,
                duration(properties, "pruner.pause", "10s"),
                duration(properties, "pruner.dynamic-filter-wait", "0s"),
                number(properties, "pruner.answer-min-files", "16"),
                enabled(properties.getOrDefault("pruner.enabled", "true")),
                properties.getOrDefault("pruner.catalog", catalogName));
    }

    private static URI url(String text) {
        if (text == null) {
            throw new IllegalArgumentException("pruner.url is missing: say where `pruner serve` listens");
        }
        URI url = URI.create(text.replaceFirst("/+$", ""));
        boolean http = "http".equals(url.getScheme()) || "https".equals(url.getScheme());
        if (!http || url.getHost() == null || url.getUserInfo() != null || url.getQuery() != null) {
            throw new IllegalArgumentException("pruner.url must be http(s)://host:port and nothing more");
        }
        return url;
    }

    private static Optional<String> token(String file) {
        if (file == null) {
            return Optional.ofNullable(System.getenv(TOKEN_VARIABLE))
                    .map(String::strip)
                    .filter(text -> !text.isEmpty())
                    .map(text -> sendable(text, TOKEN_VARIABLE));
        }
        try {
            return Optional.of(sendable(Files.readString(Path.of(file)).strip(), file));
        } catch (IOException error) {
            throw new IllegalArgumentException("pruner.token-file cannot be read: " + file, error);
        }
    }

    /** What cannot stand in a header is refused here, for the client's own error would show the token. */
    private static String sendable(String token, String source) {
        if (!TOKEN.matcher(token).matches()) {
            throw new IllegalArgumentException("the token in " + source + " must be one line of printable ASCII without blanks");
        }
        return token;
    }

    private static boolean enabled(String text) {
        if (!text.equals("true") && !text.equals("false")) {
            throw new IllegalArgumentException("pruner.enabled must be true or false");
        }
        return text.equals("true");
    }

    private static int number(Map<String, String> properties, String key, String otherwise) {
        String text = properties.getOrDefault(key, otherwise).strip();
        if (!NUMBER.matcher(text).matches()) {
            throw new IllegalArgumentException(key + " must be a whole number from 0 to 999999999");
        }
        return Integer.parseInt(text);
    }

    private static Duration duration(Map<String, String> properties, String key, String otherwise) {
        String text = properties.getOrDefault(key, otherwise).strip();
        Matcher found = DURATION.matcher(text);
        if (!found.matches()) {
            throw new IllegalArgumentException(key + " must be a time such as 500ms or 2s");
        }
        long number = Long.parseLong(found.group(1));
        return switch (found.group(2)) {
            case "ms" -> Duration.ofMillis(number);
            case "s" -> Duration.ofSeconds(number);
            default -> Duration.ofMinutes(number);
        };
    }

    @Override
    public String toString() {
        return "Settings[" + url + "]";
    }
}
