"""Steps of Slurm and answers of scontrol, as 22.05 gives them, for the tests beside."""

from dataclasses import replace

from trnsim.cluster.slurm.step import SlurmStep

VARIABLES = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}
STEP = SlurmStep(7, 0, ("n1", "n2"), (1, 1), 1, 1, 0)
FIRST = replace(STEP, node=0, task=0)

JOB = """JobId=7 JobName=a.sh
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   NodeList=n[1-2]
   JOB_GRES=neuron:8
     Nodes=n1 CPU_IDs=96-97 Mem=0 GRES={first}
     Nodes=n2 CPU_IDs=0-1 Mem=0 GRES={second}
   TresPerNode=gres:neuron:4

"""
STEP_TEXT = """StepId=7.0 UserId=0 StartTime=2026-11-27T00:13:22 TimeLimit=UNLIMITED
   State=RUNNING Partition=trn2 NodeList=n[1-2]
   TRES=cpu=4,mem=0,node=2
{more}
"""
NODE = "NodeName=n1 Arch=x86_64 CoresPerSocket=48 \n   CPUAlloc=2 CPUTot=192\n   Gres={gres}\n"


def ask(first="neuron:4(IDX:0-3)", second="neuron:4(IDX:4-7)", more="", gres="(null)", job=JOB):
    """What scontrol answers, by the first two words of the question."""
    answers = {
        ("show", "job"): job.format(first=first, second=second),
        ("show", "step"): STEP_TEXT.format(more=more),
        ("show", "node"): NODE.format(gres=gres),
    }
    return lambda arguments: answers[tuple(arguments[:2])]
