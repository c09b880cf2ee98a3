package io.txns;

import static com.tngtech.archunit.base.DescribedPredicate.describe;
import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.ArchConfiguration;
import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.AccessTarget.CodeUnitAccessTarget;
import com.tngtech.archunit.core.domain.JavaAccess;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.library.Architectures.LayeredArchitecture;
import com.tngtech.archunit.library.dependencies.SliceAssignment;
import com.tngtech.archunit.library.dependencies.SliceIdentifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The order of the rooms: each uses only those below it. The face's values lie at the bottom. */
class RoomsTest {
  private static final String ICEBERG = "io.txns.iceberg";
  private static final String SPARK = "io.txns.spark";

  /** Bottom first. */
  private static final List<String> ICEBERGS_ROOMS =
      List.of("meta", "log", "table", "stage", "commit", "catalog", "admin");

  /** Bottom first. */
  private static final List<String> SPARKS_ROOMS =
      List.of("compat", "sql", "session", "procedure", "plan", "command");

  /** What of the faces stands above the rooms; the rest of them are values. */
  private static final Set<String> ABOVE =
      Set.of(
          ICEBERG + ".TxnHandle",
          ICEBERG + ".TxnCatalog",
          SPARK + ".TxnSparkCatalog",
          SPARK + ".TxnSparkSessionCatalog",
          SPARK + ".TxnSparkExtensions",
          SPARK + ".TxnMetricsPlugin");

  private static final DescribedPredicate<JavaClass> NEVER_RELOCATED =
      JavaClass.Predicates.resideInAnyPackage(
          "", // primitive types
          "java..",
          "scala..",
          "io.txns..",
          "org.apache.hadoop..",
          "org.apache.iceberg..",
          "org.apache.spark..");

  /** What a version of Spark or Iceberg has otherwise, or not at all. */
  private static final Set<String> VERSIONED =
      Set.of(
          "org.apache.iceberg.IcebergBuild",
          "org.apache.iceberg.spark.TimeTravel",
          "org.apache.spark.package",
          "org.apache.spark.sql.catalyst.parser.HybridParameterContext",
          "org.apache.spark.sql.catalyst.parser.NamedParameterContext",
          "org.apache.spark.sql.catalyst.parser.ParameterContext",
          "org.apache.spark.sql.catalyst.parser.PositionalParameterContext",
          "org.apache.spark.sql.catalyst.plans.logical.MergeRows",
          "org.apache.spark.sql.execution.CacheManager",
          "org.apache.spark.sql.execution.SparkSqlParser");

  /** The same of classes that are in all of them; {@code <init>} is their constructors. */
  private static final Set<String> VERSIONED_MEMBERS =
      Set.of(
          "org.apache.iceberg.spark.source.SparkTable.<init>",
          "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.copy",
          "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.timeTravelSpec");

  private static JavaClasses ours;

  @BeforeAll
  static void read() {
    ArchConfiguration.get().setResolveMissingDependenciesFromClassPath(false);
    ours =
        new ClassFileImporter()
            .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
            .importPackages("io.txns");
  }

  @Test
  void theProtocolsRoomsUseThoseBelow() {
    ordered(ICEBERG, ICEBERGS_ROOMS).check(ours);
  }

  @Test
  void sparksRoomsUseThoseBelow() {
    ordered(SPARK, SPARKS_ROOMS).check(ours);
  }

  /** A room is one package, whose classes know each other one way. */
  @ParameterizedTest
  @MethodSource("rooms")
  void classesOfARoomHaveNoCircle(String room) {
    slices().assignedFrom(classesOf(room)).should().beFreeOfCycles().check(ours);
  }

  static Stream<String> rooms() {
    return Stream.concat(
        ICEBERGS_ROOMS.stream().map(room -> ICEBERG + "." + room),
        SPARKS_ROOMS.stream().map(room -> SPARK + "." + room));
  }

  private static SliceAssignment classesOf(String room) {
    return new SliceAssignment() {
      @Override
      public SliceIdentifier getIdentifierOf(JavaClass type) {
        return type.getPackageName().equals(room)
            ? SliceIdentifier.of(outermost(type).getSimpleName())
            : SliceIdentifier.ignore();
      }

      @Override
      public String getDescription() {
        return "classes of " + room;
      }
    };
  }

  @Test
  void theProtocolDoesNotKnowSpark() {
    noClasses()
        .that()
        .resideInAPackage(ICEBERG + "..")
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(
            "org.apache.spark..", "org.apache.iceberg.spark..", "scala..", "io.txns.spark..")
        .check(ours);
  }

  /** Iceberg's own jars, and its runtime jar for Spark, have other names for libraries' types. */
  @Test
  void nothingIsUsedThatIcebergRelocates() {
    noClasses()
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage("org.apache.iceberg.relocated..", "org.apache.iceberg.shaded..")
        .orShould()
        .accessTargetWhere(describe("a library's type is in its signature", RoomsTest::isRelocated))
        .check(ours);
  }

  private static boolean isRelocated(JavaAccess<?> access) {
    return access.getTarget() instanceof CodeUnitAccessTarget called
        && called.getOwner().getPackageName().startsWith("org.apache.iceberg")
        && Stream.concat(
                Stream.of(called.getRawReturnType()), called.getRawParameterTypes().stream())
            .anyMatch(not(NEVER_RELOCATED));
  }

  /** So a jar for another version is another folder {@code compat}. */
  @Test
  void onlyCompatKnowsAVersion() {
    noClasses()
        .that()
        .resideOutsideOfPackage(SPARK + ".compat..")
        .should()
        .dependOnClassesThat(
            describe(
                "differ between versions",
                type -> VERSIONED.contains(type.getName().replaceFirst("\\$.*", ""))))
        .orShould()
        .callCodeUnitWhere(
            describe(
                "it differs between versions",
                call ->
                    VERSIONED_MEMBERS.contains(
                        call.getTargetOwner().getName() + "." + call.getName())))
        .check(ours);
  }

  /** Values at the bottom, then the rooms, bottom first, then what stands above them. */
  private static LayeredArchitecture ordered(String face, List<String> rooms) {
    LayeredArchitecture layers =
        layeredArchitecture()
            .consideringOnlyDependenciesInAnyPackage(face + "..")
            .layer("values")
            .definedBy(inFace(face, false))
            .layer("face")
            .definedBy(inFace(face, true));
    for (String room : rooms) {
      layers = layers.layer(room).definedBy(face + "." + room + "..");
    }
    List<String> below = new ArrayList<>(List.of("values"));
    layers = layers.whereLayer("values").mayNotAccessAnyLayer();
    for (String room : rooms) {
      layers = layers.whereLayer(room).mayOnlyAccessLayers(below.toArray(new String[0]));
      below.add(room);
    }
    return layers;
  }

  private static DescribedPredicate<JavaClass> inFace(String face, boolean isAbove) {
    return describe(
        isAbove ? "the face" : "its values",
        type ->
            type.getPackageName().equals(face)
                && ABOVE.contains(outermost(type).getName()) == isAbove);
  }

  private static JavaClass outermost(JavaClass type) {
    return type.getEnclosingClass().map(RoomsTest::outermost).orElse(type);
  }
}
