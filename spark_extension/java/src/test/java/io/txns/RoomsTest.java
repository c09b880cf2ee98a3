package io.txns;

import static com.tngtech.archunit.base.DescribedPredicate.describe;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.ArchConfiguration;
import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.library.Architectures.LayeredArchitecture;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The order of the rooms: each uses only those below it. The face's values lie at the bottom. */
class RoomsTest {
  private static final String ICEBERG = "io.txns.iceberg";

  /** Bottom first. */
  private static final List<String> ICEBERGS_ROOMS =
      List.of("meta", "log", "table", "stage", "commit", "catalog", "admin");

  /** What of the protocol's face stands above the rooms; the rest of it are values. */
  private static final Set<String> ABOVE = Set.of(ICEBERG + ".TxnHandle", ICEBERG + ".TxnCatalog");

  /** What is yet to be cut; each with what it takes. */
  private static final Map<String, Set<String>> EXCEPTIONS =
      Map.of(
          // The handle is passed whole where two or three calls are needed.
          ICEBERG + ".TxnHandle",
          Set.of(
              ".admin.OffSwitch",
              ".admin.Purger",
              ".catalog.TableDrop",
              ".catalog.TableListing",
              ".catalog.TableRename",
              ".catalog.Transaction",
              ".catalog.TxnTableBuilder",
              ".catalog.TxnTableOperations",
              ".catalog.UnregisteredOperations"),
          // It loads what it has created through the face.
          ICEBERG + ".TxnCatalog",
          Set.of(".catalog.TxnTableBuilder"),
          // How long snapshots are kept is a rule of its own.
          ICEBERG + ".commit.Registrar",
          Set.of(".stage.ChangeBuilder"),
          // Static helpers that stand in a class above their users.
          ICEBERG + ".stage.ReadSet",
          Set.of(".log.LogState"),
          ICEBERG + ".stage.StagedTable",
          Set.of(".table.Overlay"),
          // Values that are made of entries.
          ICEBERG + ".log.Entry",
          Set.of(".Committed", ".Winner"),
          ICEBERG + ".log.Change",
          Set.of(".Committed"));

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
    ordered(ICEBERG, ABOVE, ICEBERGS_ROOMS).check(ours);
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

  /** Values at the bottom, then the rooms, bottom first, then what stands above them. */
  private static LayeredArchitecture ordered(String face, Set<String> above, List<String> rooms) {
    LayeredArchitecture layers =
        layeredArchitecture()
            .consideringOnlyDependenciesInAnyPackage(face + "..")
            .layer("values")
            .definedBy(inFace(face, above, false))
            .layer("face")
            .definedBy(inFace(face, above, true));
    for (String room : rooms) {
      layers = layers.layer(room).definedBy(face + "." + room + "..");
    }
    List<String> below = new ArrayList<>(List.of("values"));
    layers = layers.whereLayer("values").mayNotAccessAnyLayer();
    for (String room : rooms) {
      layers = layers.whereLayer(room).mayOnlyAccessLayers(below.toArray(new String[0]));
      below.add(room);
    }
    for (Map.Entry<String, Set<String>> exception : EXCEPTIONS.entrySet()) {
      for (String from : exception.getValue()) {
        layers =
            layers.ignoreDependency(
                describe(from, type -> outermost(type).getName().equals(ICEBERG + from)),
                describe(
                    exception.getKey(),
                    type -> outermost(type).getName().equals(exception.getKey())));
      }
    }
    return layers;
  }

  private static DescribedPredicate<JavaClass> inFace(
      String face, Set<String> above, boolean isAbove) {
    return describe(
        isAbove ? "the face" : "its values",
        type ->
            type.getPackageName().equals(face)
                && above.contains(outermost(type).getName()) == isAbove);
  }

  private static JavaClass outermost(JavaClass type) {
    return type.getEnclosingClass().map(RoomsTest::outermost).orElse(type);
  }
}
