/** Starts the server with the version that its jars have; Trino's own starter is not published as a jar. */
public final class TrinoLauncher {
    private TrinoLauncher() {}

    public static void main(String[] arguments) {
        new io.trino.server.Server().start(arguments[0]);
    }
}
