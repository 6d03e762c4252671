"""All ops of the TensorFlow that is here, and what of an op says that it reaches out of a graph."""

from __future__ import annotations

import pathlib
import re
from typing import Any

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

_LIST = pathlib.Path(__file__).parent / "data" / "refused_ops.txt"
REFUSED = frozenset(line for line in _LIST.read_text().splitlines() if line and not line.startswith("#"))
# The list is of this TensorFlow; older ones have ops that are neither there nor allowed.
RELEASE = (2, 21)

# By kernel's source: files, memory that is a file, listings, sockets, other machines, Python, printing, the process.
_KNOWN = """
    Abort CollectiveReduceV2 CreateSummaryFileWriter DataServiceDatasetV4 DebugIdentityV2 DecodeProtoV2 DumpTensor
    EagerPyFunc EncodeProto FileSystemSetConfiguration FixedLengthRecordDatasetV2 FixedUnigramCandidateSampler
    GenerateVocabRemapping GeneratorDataset ImmutableConst InitializeTableFromTextFile InitializeTableFromTextFileV2
    LMDBReader LoadAndRemapMatrix LoadDataset MatchingFiles MatchingFilesDataset MergeV2Checkpoints PrintV2 Print
    PyFunc PyFuncStateless ReadFile RecordInput RemoteCall Restore RestoreV2 RpcClient RpcServer Save SaveDatasetV2
    SaveSlices SaveV2 Send ShardedFilename Skipgram SnapshotDatasetV2 SqlDataset TFRecordDatasetV2 TextLineDataset
    TextLineReaderV2 WholeFileReaderV2 WriteFile WriteRawProtoSummary XlaCallModule XlaCustomCallV2 _Recv _Send
"""
KNOWN_TO_REACH_OUT = frozenset(_KNOWN.split())

_NAMES = re.compile(
    "Abort|Collective|Custom|Dataset|Debug|Dump|File(?!Op)|LMDB|Launch|Nccl|Print|Proto|PyFunc|Record|Remote|Restore|Rpc|"
    "Save|Send|Recv|Session|Skipgram|Sleep|Sql|Summary|TPU|Xla|Writer|Reader|^Read(?!Variable)|^Write|^_"
)
_FIELDS = re.compile(
    "file|path(?!s$)|dir$|^address|^target$|^token$|url|writer|descriptor|memory_region|output_stream|protocol|vocab|pattern$"
    "|server|service|prefix|basename"
)
# A regular expression, and the words of the op.
_NO_SIGNS = {("RegexFullMatch", "pattern"), ("RegexReplace", "pattern")}
_NO_SIGNS |= {("StaticRegexFullMatch", "pattern"), ("StaticRegexReplace", "pattern")}


def ops() -> list[Any]:
    buffer = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return list(op_def_pb2.OpList.FromString(buffer).op)


def signs_of_reaching_out(op: Any) -> list[str]:
    """Return what in an op's name, inputs and attributes is of files, machines, Python or printing."""
    fields = [each.name for each in (*op.input_arg, *op.attr)]
    found = [name for name in fields if _FIELDS.search(name) and (op.name, name) not in _NO_SIGNS]
    return found + ([op.name] if _NAMES.search(op.name) else [])
