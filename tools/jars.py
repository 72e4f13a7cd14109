"""Fetches the Hudi bundle for Spark, with the resolver that pyspark already brings (Ivy).

The jar is pinned by version and SHA-256, lands in the cache folder in one step, and is handed to Spark as a
file: letting Spark resolve it would run a resolver at every start and would read the user's `~/.m2`, where a
broken leftover of another tool hides the jar.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tools.cache import appearing, cache_dir, say, sha256_of
from tools.java import Java, spark_java

SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{scratch}"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false"/>
  </resolvers>
</ivysettings>
"""
"""No host is named, so Ivy's default stands; without poms and metadata exactly the named jar is fetched."""


class FetchError(RuntimeError):
    """Something that the project needs could not be fetched, or is not what was pinned."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar by its Maven coordinates and the checksum of its content."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name under which Maven repositories keep it."""
        return f"{self.artifact}-{self.version}.jar"


HUDI_BUNDLE = Jar(
    group="org.apache.hudi",
    artifact="hudi-spark3.5-bundle_2.12",
    version="1.2.0",
    sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
)


S3A_JARS = (
    Jar(
        "org.apache.hadoop",
        "hadoop-aws",
        "3.3.4",
        "53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
    ),
    *(
        Jar("com.amazonaws", artifact, "1.12.262", sha256)
        for artifact, sha256 in (
            ("aws-java-sdk-core", "06fed99f929c389e168278c1b111aaf1afb270d07202fbbce92e73d1e4279678"),
            ("aws-java-sdk-dynamodb", "7af4ba06d0d9b3c2ab435089caecd0567810d203aa285f7aa72861f1964d442e"),
            ("aws-java-sdk-s3", "a0cb7580178bc0d4d3558295a5bb890008478da8a6b3241989c71238b0ed3be5"),
            ("aws-java-sdk-sts", "659f48d8ebc02025c5042cc4b925f62610e81f334498f1b9e7a271ce20ecbcae"),
            ("jmespath-java", "9001ea993a45d82a2d3086edcbda8a40b4e012d049a70fbf071fd329c0fbd777"),
        )
    ),
)
"""What Spark 3.5 reads `s3a://` with: its Hadoop's file system, and of the AWS SDK the parts that it links to. The
bundle of the whole SDK is 280 MB."""


DELTA_JARS = (
    Jar(
        "io.delta",
        "delta-spark_2.12",
        "3.3.2",
        "4e92085d5d794cf949c50bb665b91384857cad58680c2d0bfc9c7ad353e98e85",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "3.3.2",
        "c096975a2ca97ccc9b4005aa5cce16c9ac3903139d340da6665b66ace67d7c36",
    ),
)
"""What Spark 3.5 reads and writes Delta tables with."""


ICEBERG_JAR = Jar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-3.5_2.12",
    "1.11.0",
    "94b8e36fc329f0293d44ba9e01b784a56e9501affec1842d898144c51f6e486a",
)
"""What Spark 3.5 reads and writes Iceberg tables with."""


LOCAL_FILES_JAR = Jar(
    "com.globalmentor",
    "hadoop-bare-naked-local-fs",
    "0.1.0",
    "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
)
"""Hadoop's local file system, but permissions are set by Java. Without Hadoop's native library, Hadoop's own starts the
program `chmod` for each file that it writes: thirty times a second while Hudi commits. It cannot list links to
folders."""


def local_files_jar() -> Path:
    """Return the path of the jar with Spark's local file system, fetching it the first time (16 KB)."""
    return fetched_jar(LOCAL_FILES_JAR)


def delta_jars() -> list[Path]:
    """Return the paths of Delta's jars, fetching them the first time (7 MB)."""
    return [fetched_jar(jar) for jar in DELTA_JARS]


def iceberg_jar() -> Path:
    """Return the path of Iceberg's jar, fetching it the first time (50 MB)."""
    return fetched_jar(ICEBERG_JAR)


def s3a_jars() -> list[Path]:
    """Return the paths of the jars with which Spark reads `s3a://`, fetching them the first time (5 MB)."""
    return [fetched_jar(jar) for jar in S3A_JARS]


def hudi_bundle() -> Path:
    """Return the path of the Hudi bundle, fetching it the first time."""
    return fetched_jar(HUDI_BUNDLE)


def fetched_jar(jar: Jar) -> Path:
    """Return the path of a jar in the cache folder; it is there only if its checksum was right."""
    folder = cache_dir() / "jars" / f"{jar.artifact}-{jar.version}-{jar.sha256[:16]}"
    path = folder / jar.file_name
    if not path.is_file():
        say(f"Fetching {jar.file_name} into {folder}")
        with appearing(folder) as scratch:
            _resolve(jar, scratch, spark_java())
            _check(jar, scratch / jar.file_name)
    return path


def _resolve(jar: Jar, folder: Path, java: Java) -> None:
    """Run Ivy to put the jar into the folder."""
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch) / "ivysettings.xml"
        settings.write_text(SETTINGS.format(scratch=scratch), encoding="utf-8")
        command = [java.executable, *java.options, f"-Divy.home={scratch}", "-jar", ivy_jar()]
        command += ["-settings", settings, "-dependency", jar.group, jar.artifact, jar.version]
        command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
        run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if run.returncode != 0 or not (folder / jar.file_name).is_file():
        tail = "\n".join(without_hosts(run.stdout + run.stderr).splitlines()[-15:])
        raise FetchError(f"could not fetch {jar.file_name}; the resolver's last words:\n{tail}")


def _check(jar: Jar, path: Path) -> None:
    """Refuse a jar whose content is not the pinned one."""
    found = sha256_of(path)
    if found != jar.sha256:
        raise FetchError(f"{jar.file_name} has SHA-256 {found}, expected {jar.sha256}; nothing was kept")


def ivy_jar() -> Path:
    """Return the Ivy jar inside the installed pyspark, without importing pyspark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FetchError("pyspark is not installed; run `make setup`")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-2.5.*.jar"))
    if not found:
        raise FetchError("the installed pyspark brings no Ivy 2.5; run `make setup`")
    return found[-1]


def without_hosts(text: str) -> str:
    """Return the text with the host of every URL left out: output that is kept names no registry."""
    return re.sub(r"\b([a-z][a-z0-9+.-]*)://[^\s/]+", r"\1://…", text)


if __name__ == "__main__":
    print(hudi_bundle())
