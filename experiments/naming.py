"""The resolvers that conf/config.yaml names folders with, for programs that compose it themselves."""

from experiments.config.folder_names import register_resolvers as register_resolvers
